package burst

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestForeign changes the remote while changes of ours are undrained: what another program
// wrote is never replaced nor removed, ours is beside it, and both are reported.
func TestForeign(t *testing.T) {
	foreign(t, func(t *testing.T) *bench { return start(t, Options{}) })
}

// TestForeignInBuckets does the same in a bucket.
func TestForeignInBuckets(t *testing.T) {
	server := s3server.StartFound(t)
	foreign(t, func(t *testing.T) *bench { return startBucket(t, server, Options{}) })
}

func foreign(t *testing.T, start func(*testing.T) *bench) {
	shut := errors.New("the line is cut")
	// sent is carried out on the remote before the line is cut.
	sent := func(b *bench, do func()) {
		b.gate.set(nil)
		do()
		b.drained()
		b.gate.set(shut)
	}
	for _, c := range []struct {
		name    string
		ours    func(b *bench)
		foreign func(b *bench)
		want    map[string]string
		reports int
		sees    string // at the name f; "" where nothing is
	}{
		{
			"both write", func(b *bench) { b.file("f", "ours") }, func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"both create", func(b *bench) { b.file("g", "ours") }, func(b *bench) { b.foreign("g", "theirs") },
			map[string]string{"f": "before", "g": "theirs", "g.bee-conflict-test": "ours"},
			1, "before",
		},
		{
			"it was written in its place", func(b *bench) { b.file("f", "ours") },
			func(b *bench) {
				if b.bucket != nil {
					b.foreign("f", "theirs")
					return
				}
				b.must(os.WriteFile(filepath.Join(b.far, "f"), []byte("theirs"), 0o600))
			},
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"it was removed", func(b *bench) { b.file("f", "ours") },
			func(b *bench) { b.gone("f") },
			map[string]string{"f": "ours"},
			0, "ours",
		},
		{
			"we remove", func(b *bench) {
				b.must(b.Remove(b.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "f"}))
			},
			func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs"},
			1, "theirs",
		},
		{
			"we rename over it", func(b *bench) {
				b.file("h", "ours")
				b.rename("h", "f")
			},
			func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"f": "theirs", "f.bee-conflict-test": "ours"},
			1, "ours",
		},
		{
			"we rename what was removed", func(b *bench) {
				sent(b, func() { b.file("f", "ours") })
				b.rename("f", "g")
			},
			func(b *bench) { b.gone("f") },
			map[string]string{"g": "ours"},
			1, "",
		},
		{
			"we rename what was renamed", func(b *bench) {
				sent(b, func() { b.file("f", "ours") })
				b.rename("f", "g")
			},
			func(b *bench) {
				b.gone("f")
				b.foreign("g", "theirs")
			},
			map[string]string{"g": "theirs", "g.bee-conflict-test": "ours"},
			2, "",
		},
		{
			"we rename what was written", func(b *bench) {
				sent(b, func() { b.file("f", "ours") })
				b.rename("f", "g")
			},
			func(b *bench) { b.foreign("f", "theirs") },
			map[string]string{"g": "theirs"},
			0, "",
		},
		{
			"we rename a removed directory and link", func(b *bench) {
				var dir uint64
				sent(b, func() {
					dir = b.make(remote.Dir, "d", "")
					b.make(remote.Link, "l", "f")
				})
				b.rename("d", "e")
				b.rename("l", "m")
				b.fileIn(dir, "x", "ours")
			},
			func(b *bench) {
				b.gone("d")
				b.gone("l")
			},
			map[string]string{"f": "before", "e": directory, "e/x": "ours", "m": "before"},
			2, "before",
		},
		{
			"a directory of that name", func(b *bench) { b.file("g", "ours") },
			func(b *bench) { b.foreignDir("g") },
			map[string]string{"f": "before", "g": directory, "g.bee-conflict-test": "ours"},
			1, "before",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := start(t)
			b.foreign("f", "before")
			if got := b.sees("f"); got != "before" {
				t.Fatalf("f has %q", got)
			}
			b.gate.set(shut)
			c.ours(b)
			c.foreign(b)
			b.gate.set(nil)
			b.drained()
			if b.bucket != nil && c.want["m"] != "" {
				c.want["m"] = "f" // the content of a link is its target
			}
			b.has(c.want)
			if got := b.sees("f"); got != c.sees {
				t.Errorf("users see %q in f, instead of %q", got, c.sees)
			}
			if got := b.Status().Conflicts; len(got) != c.reports {
				t.Errorf("reported: %v", got)
			}
		})
	}
}

// TestRemoteRetry carries changes out twice, as after a crash between them and their record.
func TestRemoteRetry(t *testing.T) {
	dir := t.TempDir()
	tree, err := remote.OpenTree(dir, "test", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		must(tree.Mkdir("d", 0o700))
		must(tree.Mkdir("e", 0o700))
		must(tree.Symlink("d", "l"))
	}
	d, err := tree.Stat("d")
	must(err)
	moved := func(_ map[string]remote.Version, err error) error { return err }
	for range 2 {
		must(moved(tree.MoveDir("d", "e", 1, d.Version, true)))
	}
	if e, err := tree.Stat("e"); err != nil || e.Version != d.Version {
		t.Errorf("%+v, %v", e, err)
	}
	must(os.WriteFile(filepath.Join(dir, "e", "theirs"), nil, 0o600))
	must(tree.Mkdir("d", 0o700))
	if _, err := tree.MoveDir("d", "e", 2, d.Version, true); err != nil { // it is there already
		t.Error(err)
	}
	again, err := tree.Stat("d")
	must(err)
	if _, err := tree.MoveDir("d", "e", 2, again.Version, true); !errors.Is(err, remote.ErrForeign) {
		t.Errorf("moved over what is not empty: %v", err)
	}
	for range 2 {
		must(tree.Rmdir("d"))
	}
}

// TestLostAnswers reads what was renamed on the remote while the answer was lost: programs wait.
func TestLostAnswers(t *testing.T) {
	b := start(t, Options{})
	b.foreign("f", "text")
	b.foreignDir("d")
	b.foreign("d/f", "text")
	file, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	d, err := b.names.Lookup(t.Context(), meta.Root, "d")
	b.must(err)
	inside, err := b.names.Lookup(t.Context(), d.Ino, "f")
	b.must(err)
	for from, ino := range map[string]uint64{"f": file.Ino, "d": inside.Ino} {
		b.gate.lose(errors.New("the answer is lost"))
		b.rename(from, from+".new")
		testkit.Eventually(t, 20*time.Second, func() error {
			if s := b.Status(); s.Waits == "" {
				return fmt.Errorf("%+v", s)
			}
			return nil
		})
		read := func(wait time.Duration) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			if err := b.names.refresh(ctx, ino, 0); err != nil {
				return "", err
			}
			p, err := b.Read(ctx, ino, 0, 100)
			return string(p), err
		}
		if got, err := read(100 * time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %q, %v", from, got, err)
		}
		b.gate.lose(nil)
		if got, err := read(time.Minute); err != nil || got != "text" {
			t.Errorf("%s: %q, %v", from, got, err)
		}
		b.drained()
	}
	b.has(map[string]string{"f.new": "text", "d.new": directory, "d.new/f": "text"})
}

// TestLateMoves carries moves out late, as an agent does whose connection was lost: after the next one
// has carried them out, and the names have other files. Those stay where they are.
func TestLateMoves(t *testing.T) {
	for _, c := range []struct {
		name  string
		late  func(far *remote.Tree, ours, before remote.Version) error
		since map[string]string // what the names have by then, in place of the moved file
		gone  bool              // the error is that the version has gone
	}{
		{
			"to a free name", func(far *remote.Tree, ours, _ remote.Version) error {
				_, err := far.Move("log", "log.1", 1, ours, remote.Version{})
				return err
			},
			map[string]string{"log": "newer"},
			false,
		},
		{
			"to a name that is free again", func(far *remote.Tree, ours, _ remote.Version) error {
				_, err := far.Move("log", "log.1", 1, ours, remote.Version{})
				return err
			},
			map[string]string{"log": "newer", "log.1": ""},
			true,
		},
		{
			"replacing another", func(far *remote.Tree, ours, before remote.Version) error {
				_, err := far.Move("log", "log.1", 1, ours, before)
				return err
			},
			map[string]string{"log": "newer"},
			false,
		},
		{
			"of what was sent", func(far *remote.Tree, ours, _ remote.Version) error {
				_, err := far.Publish("log", "log.1", ours, remote.Version{})
				return err
			},
			map[string]string{"log": "newer", "log.1": ""},
			true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			far, err := remote.OpenTree(dir, "test", nil)
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			write := func(name, text string) remote.Version {
				t.Helper()
				name = filepath.Join(dir, name)
				err := os.Remove(name)
				if errors.Is(err, fs.ErrNotExist) {
					err = nil
				}
				if err == nil && text != "" {
					err = os.WriteFile(name, []byte(text), 0o600)
				}
				e, serr := far.Stat(filepath.Base(name))
				if err != nil || serr != nil && text != "" {
					t.Fatal(err, serr)
				}
				return e.Version
			}
			before := remote.Version{}
			if c.name == "replacing another" {
				before = write("log.1", "before")
			}
			ours := write("log", "ours")
			if _, err := far.Move("log", "log.1", 1, ours, before); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"log.1": "ours"}
			for name, text := range c.since {
				if want[name] = text; text == "" {
					delete(want, name)
				}
				write(name, text)
			}
			err = c.late(far, ours, before)
			if gone := errors.Is(err, fs.ErrClosed) || errors.Is(err, fs.ErrNotExist); gone != c.gone || err != nil && !gone {
				t.Errorf("error: %v", err)
			}
			if got := tree(t, dir); !maps.Equal(got, want) {
				t.Errorf("%v instead of %v", got, want)
			}
		})
	}
}

// TestTwoVolumesTakeADirectory has two volumes make their record in a directory at the same time: the
// second one fails, and leaves nothing.
func TestTwoVolumesTakeADirectory(t *testing.T) {
	dir := t.TempDir()
	for i, volume := range []string{"first", "second"} {
		far, err := remote.OpenTree(dir, volume, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer far.Close()
		if err := far.SetRecord([]byte(volume)); i == 0 && err != nil || i == 1 && !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", volume, err)
		}
		if raw, err := far.Record(); err != nil || string(raw) != "first" {
			t.Errorf("%q, %v", raw, err)
		}
	}
	if all, err := os.ReadDir(filepath.Join(dir, remote.Directory)); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// TestReplacedDirectoryBesideItsName renames a directory over one that was stored beside its name, as
// others have a file there.
func TestReplacedDirectoryBesideItsName(t *testing.T) {
	b := start(t, Options{})
	b.gate.set(errors.New("the line is cut"))
	b.make(remote.Dir, "d", "")
	b.foreign("d", "theirs")
	b.gate.set(nil)
	b.drained()
	b.make(remote.Dir, "e", "")
	b.rename("e", "d")
	b.drained()
	b.has(map[string]string{"d": "theirs", "d.bee-conflict-test": directory})
}
