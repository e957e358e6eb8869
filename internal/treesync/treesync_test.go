package treesync

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// makeTree builds a tree with one of everything that streams carry.
func makeTree(t *testing.T, root string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(root, "sub/deep"), 0o755))
	must(t, os.Mkdir(filepath.Join(root, "empty"), 0o700))
	must(t, os.WriteFile(filepath.Join(root, "plain"), []byte("hello\n"), 0o640))
	must(t, os.WriteFile(filepath.Join(root, "none"), nil, 0o600))
	must(t, core.WriteProgram(filepath.Join(root, "sub/exec"), []byte("#!/bin/sh\n"), 0o755))
	must(t, os.WriteFile(filepath.Join(root, "sub/readonly"), []byte("r"), 0o444))
	must(t, os.WriteFile(filepath.Join(root, "sub/big"), bytes.Repeat([]byte("0123456789abcdef"), 200_000), 0o644))
	must(t, os.WriteFile(filepath.Join(root, "na\nme \xff*"), []byte("odd"), 0o644))
	must(t, os.Symlink("../plain", filepath.Join(root, "sub/link")))
	must(t, os.Symlink("/nowhere", filepath.Join(root, "dangling")))
	must(t, os.Link(filepath.Join(root, "sub/big"), filepath.Join(root, "zhard")))
	must(t, unix.Mkfifo(filepath.Join(root, "fifo"), 0o600))
	if err := unix.Setxattr(filepath.Join(root, "plain"), "user.note", []byte("kept"), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
		t.Fatal(err)
	}
	sparse, err := os.Create(filepath.Join(root, "sparse"))
	must(t, err)
	_, err = sparse.WriteAt([]byte("island"), 5<<20)
	must(t, err)
	must(t, sparse.Truncate(64<<20))
	must(t, sparse.Close())
	old := time.Date(2001, 2, 3, 4, 5, 6, 789, time.UTC)
	must(t, os.Chtimes(filepath.Join(root, "plain"), old, old))
	must(t, os.Chmod(filepath.Join(root, "sub/deep"), 0o555))
	must(t, os.Chtimes(filepath.Join(root, "sub"), old, old))
	t.Cleanup(func() { _ = fsutil.RemoveAll(root) })
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// describe lists a tree with everything that a copy keeps.
func describe(t *testing.T, root string) []string {
	t.Helper()
	var out []string
	inodes := map[uint64]string{}
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		line := fmt.Sprintf("%q %o %d.%d", rel, st.Mode, st.Mtim.Sec, st.Mtim.Nsec)
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFREG:
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			line += fmt.Sprintf(" %d %x", len(b), crcOf(b))
			if first, ok := inodes[st.Ino]; ok {
				line += " = " + first
			}
			inodes[st.Ino] = rel
			value := make([]byte, 100)
			if n, err := unix.Lgetxattr(path, "user.note", value); err == nil {
				line += " note=" + string(value[:n])
			}
		case unix.S_IFLNK:
			to, _ := os.Readlink(path)
			line += " -> " + to
		}
		out = append(out, line)
		return nil
	}))
	return out
}

func crcOf(b []byte) uint32 {
	var c uint32
	for _, x := range b {
		c = c*31 + uint32(x)
	}
	return c
}

func same(t *testing.T, want, got []string) {
	t.Helper()
	for i := range max(len(want), len(got)) {
		w, g := at(want, i), at(got, i)
		if w != g {
			t.Fatalf("trees differ:\nwant %s\ngot  %s", w, g)
		}
	}
}

func at(s []string, i int) string {
	if i < len(s) {
		return s[i]
	}
	return "(nothing)"
}

func TestRoundTrip(t *testing.T) {
	testkit.AsRootToo(t)
	dir := t.TempDir()
	from := filepath.Join(dir, "from")
	makeTree(t, from)
	routes := map[string]func(to string) error{
		"stream": func(to string) error {
			r, w := io.Pipe()
			go func() { w.CloseWithError(Send(t.Context(), w, from, nil)) }()
			return Receive(t.Context(), r, to)
		},
		"copy": func(to string) error { return Copy(t.Context(), from, to, nil) },
		"many": func(to string) error {
			r, w := io.Pipe()
			go func() { w.CloseWithError(SendMany(t.Context(), w, from, nil, nil)) }()
			if err := Receive(t.Context(), r, to); err != nil {
				return err
			}
			// The root itself is the receiver's own.
			st, _ := os.Stat(from)
			must(t, os.Chmod(to, st.Mode().Perm()))
			return os.Chtimes(to, st.ModTime(), st.ModTime())
		},
	}
	for name, route := range routes {
		t.Run(name, func(t *testing.T) {
			to := filepath.Join(dir, name, "a", "to")
			t.Cleanup(func() { _ = fsutil.RemoveAll(to) })
			must(t, route(to))
			same(t, describe(t, from), describe(t, to))
			var st unix.Stat_t
			must(t, unix.Stat(filepath.Join(to, "sparse"), &st))
			if st.Blocks*512 > 1<<20 {
				t.Errorf("the hole was filled: %d blocks", st.Blocks)
			}
			// Again, over what is there; directories that forbid writing included.
			must(t, route(to))
			same(t, describe(t, from), describe(t, to))
			noLeftovers(t, filepath.Dir(to))
		})
	}
}

func noLeftovers(t *testing.T, dir string) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if strings.Contains(path, ".bee-part") {
			t.Errorf("left behind: %s", path)
		}
		return err
	}))
}

func TestSingleEntries(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/file", []byte("x"), 0o4755))
	must(t, os.Chmod(dir+"/file", 0o755|os.ModeSetuid))
	must(t, os.Symlink("file", dir+"/link"))
	must(t, os.Mkdir(dir+"/dir", 0o755))
	for _, name := range []string{"file", "link", "dir"} {
		for _, over := range []string{"nothing", "file", "dir", "link"} {
			t.Run(name+" over "+over, func(t *testing.T) {
				to := filepath.Join(t.TempDir(), "to")
				switch over {
				case "file":
					must(t, os.WriteFile(to, []byte("old"), 0o644))
				case "dir":
					must(t, os.MkdirAll(to+"/full", 0o755))
				case "link":
					must(t, os.Symlink("elsewhere", to))
				}
				var b bytes.Buffer
				must(t, Send(t.Context(), &b, dir+"/"+name, nil))
				must(t, Receive(t.Context(), &b, to))
				want, _ := os.Lstat(dir + "/" + name)
				got, err := os.Lstat(to)
				must(t, err)
				if got.Mode() != want.Mode()&^os.ModeSetuid {
					t.Errorf("mode %v, want %v without set-user-id", got.Mode(), want.Mode())
				}
				noLeftovers(t, filepath.Dir(to))
			})
		}
	}
}

func TestCutAndDamagedStreams(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/from/sub", 0o755))
	must(t, os.WriteFile(dir+"/from/sub/a", []byte("content of a"), 0o644))
	must(t, os.WriteFile(dir+"/from/b", bytes.Repeat([]byte("b"), 300), 0o644))
	must(t, os.Symlink("b", dir+"/from/l"))
	var whole bytes.Buffer
	must(t, Send(t.Context(), &whole, dir+"/from", nil))
	to := dir + "/to"
	must(t, os.WriteFile(to, []byte("before"), 0o644))
	check := func(what string, stream []byte, kind core.Kind) {
		t.Helper()
		err := Receive(t.Context(), bytes.NewReader(stream), to)
		if err == nil || kind != -1 && core.KindOf(err) != kind {
			t.Fatalf("%s: got %v", what, err)
		}
		if b, _ := os.ReadFile(to); string(b) != "before" {
			t.Fatalf("%s: the target was touched", what)
		}
	}
	for n := range whole.Len() {
		check(fmt.Sprintf("cut after %d bytes", n), whole.Bytes()[:n], core.Lost)
		damaged := slices.Clone(whole.Bytes())
		damaged[n] ^= 0x20
		check(fmt.Sprintf("bit flipped in byte %d", n), damaged, -1)
	}
	noLeftovers(t, dir)
}

func TestReceiveReadsNoFurther(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", bytes.Repeat([]byte("x"), 3<<20), 0o644))
	var b bytes.Buffer
	must(t, Send(t.Context(), &b, dir+"/f", nil))
	b.WriteString("next")
	must(t, Receive(t.Context(), &b, dir+"/g"))
	if b.String() != "next" {
		t.Fatalf("left in the stream: %q", b.String())
	}
}

func TestSenderErrors(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	if err := Send(t.Context(), &b, dir+"/missing", nil); core.KindOf(err) != core.NotFound {
		t.Fatalf("got %v, want not found", err)
	}
	if err := Receive(t.Context(), &b, dir+"/to"); err == nil || !strings.Contains(err.Error(), "missing") {
		t.Fatalf("the receiver did not learn the cause: %v", err)
	}
	for _, rel := range []string{"../x", "/etc/passwd", ".", "a/../../x"} {
		if err := SendMany(t.Context(), io.Discard, dir, []string{rel}, nil); err == nil {
			t.Errorf("%q was accepted", rel)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Send(ctx, io.Discard, dir, nil); core.KindOf(err) != core.Stopped {
		t.Errorf("got %v, want stopped", err)
	}
}

// fullReceiver has no space left, says so, and takes no more.
type fullReceiver struct {
	*io.PipeWriter
	outcome error
}

func (r fullReceiver) Outcome() error { return r.outcome }

// TestAFullReceiverSaysSo: space may be there later, and what is sent to a receiver
// without any must not end with a broken pipe.
func TestAFullReceiverSaysSo(t *testing.T) {
	out, in := io.Pipe()
	out.Close()
	err := Deliver(fullReceiver{in, fail("write", "f", unix.ENOSPC)}, func(w io.Writer) error {
		_, err := w.Write([]byte("x"))
		return fail("send", "f", err)
	})
	if !errors.Is(err, unix.ENOSPC) || !core.IsKind(err, core.Transient) || core.Remedy(err) == "" {
		t.Errorf("got %v (%s), remedy %q", err, core.KindOf(err), core.Remedy(err))
	}
}

func TestManyMerges(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/from/a/b", 0o755))
	must(t, os.WriteFile(dir+"/from/a/b/new", []byte("new"), 0o644))
	must(t, os.WriteFile(dir+"/from/top", []byte("top"), 0o644))
	must(t, os.MkdirAll(dir+"/to/a/b", 0o755))
	must(t, os.WriteFile(dir+"/to/a/b/old", []byte("old"), 0o644))
	before, _ := os.Stat(dir + "/to")
	var b bytes.Buffer
	must(t, SendMany(t.Context(), &b, dir+"/from", []string{"a/b/new", "top"}, nil))
	must(t, Receive(t.Context(), &b, dir+"/to"))
	for _, f := range []string{"a/b/new", "a/b/old", "top"} {
		if _, err := os.Stat(dir + "/to/" + f); err != nil {
			t.Error(err)
		}
	}
	after, _ := os.Stat(dir + "/to")
	if !os.SameFile(before, after) {
		t.Error("the root was replaced: a bind mount of it would be lost")
	}
}

// hostile writes a stream by hand.
func hostile(kind byte, write func(*encoder)) []byte {
	var b bytes.Buffer
	e := newEncoder(&b, kind, nil)
	write(e)
	_ = e.end()
	return b.Bytes()
}

func TestHostileStreams(t *testing.T) {
	testkit.AsRootToo(t)
	dirMeta := func(name string) *meta { return &meta{kind: kindDir, name: name, mode: 0o755} }
	file := func(e *encoder, name string) {
		_ = e.record(recEntry, (&meta{kind: kindFile, name: name, mode: 0o644}).append(nil))
		_ = e.number(recEnd, 0)
	}
	cases := map[string][]byte{
		"parent in name": hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.enter(dirMeta("")); file(e, "../../evil"); _ = e.leave() }),
		"dot dot": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			_ = e.enter(dirMeta(""))
			_ = e.enter(dirMeta(".."))
			file(e, "evil")
			_ = e.leave()
			_ = e.leave()
		}),
		"absolute name":    hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.enter(dirMeta("")); file(e, "/evil"); _ = e.leave() }),
		"absolute top":     hostile(kindMany, func(e *encoder) { _ = e.top("/evil"); file(e, "") }),
		"top above":        hostile(kindMany, func(e *encoder) { _ = e.top("../evil"); file(e, "") }),
		"top through link": hostile(kindMany, func(e *encoder) { _ = e.top("link/evil"); file(e, "") }),
		"file through link": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			_ = e.enter(dirMeta(""))
			_ = e.other(&meta{kind: kindSymlink, name: "x", target: ".."})
			_ = e.enter(dirMeta("x"))
			file(e, "evil")
			_ = e.leave()
			_ = e.leave()
		}),
		"write over link": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			_ = e.enter(dirMeta(""))
			_ = e.other(&meta{kind: kindSymlink, name: "x", target: "../evil"})
			file(e, "x")
			_ = e.leave()
		}),
		"unknown hard link": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			_ = e.enter(dirMeta(""))
			_ = e.other(&meta{kind: kindHard, name: "x", link: 7})
			_ = e.leave()
		}),
		"a name twice": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			_ = e.enter(dirMeta(""))
			file(e, "x")
			file(e, "x")
			_ = e.leave()
		}),
		"two entries in one":  hostile(kindOne, func(e *encoder) { _ = e.top(""); file(e, ""); file(e, "") }),
		"leave at top":        hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.leave() }),
		"unclosed directory":  hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.enter(dirMeta("")) }),
		"unclosed file":       hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.record(recEntry, (&meta{kind: kindFile}).append(nil)) }),
		"data without a file": hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.record(recData, make([]byte, 9)) }),
		"device":              hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.other(&meta{kind: 'b'}) }),
		"trusted attribute": hostile(kindOne, func(e *encoder) {
			_ = e.top("")
			m := dirMeta("")
			m.xattrs = []xattr{{"security.capability", "x"}}
			_ = e.enter(m)
			_ = e.leave()
		}),
		"nothing": hostile(kindOne, func(e *encoder) {}),
	}
	for name, stream := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.MkdirAll(dir+"/to", 0o755))
			must(t, os.Symlink("..", dir+"/to/link"))
			err := Receive(t.Context(), bytes.NewReader(stream), dir+"/to")
			if err == nil {
				t.Error("was accepted")
			}
			if _, err := os.Lstat(dir + "/evil"); err == nil {
				t.Error("wrote outside")
			}
			if _, err := os.Lstat("/evil"); err == nil {
				t.Error("wrote into /")
			}
			noLeftovers(t, dir)
		})
	}
}

func TestStalePartIsCleared(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/from", []byte("x"), 0o644))
	must(t, os.MkdirAll(dir+"/.to.bee-part/half", 0o755))
	must(t, Copy(t.Context(), dir+"/from", dir+"/to", nil))
	noLeftovers(t, dir)
}

func TestRemoveAll(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/a/shut/in", 0o755))
	must(t, os.WriteFile(dir+"/a/shut/in/f", nil, 0))
	must(t, os.WriteFile(dir+"/kept", nil, 0o644))
	must(t, os.Symlink(dir+"/kept", dir+"/a/link"))
	must(t, os.Chmod(dir+"/a/shut/in", 0o555))
	must(t, os.Chmod(dir+"/a/shut", 0))
	must(t, os.Chmod(dir+"/a", 0))
	must(t, fsutil.RemoveAll(dir+"/a"))
	must(t, fsutil.RemoveAll(dir+"/a"))
	must(t, fsutil.RemoveAll(dir+"/never/was"))
	if _, err := os.Lstat(dir + "/a"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("still there: %v", err)
	}
	if _, err := os.Stat(dir + "/kept"); err != nil {
		t.Error(err)
	}
}

func TestCopyIntoItself(t *testing.T) {
	dir := t.TempDir()
	must(t, os.MkdirAll(dir+"/from/sub", 0o755))
	must(t, os.Symlink("from", dir+"/link"))
	for _, to := range []string{"/from/to", "/from/sub/deep/to", "/link/to"} {
		if err := Copy(t.Context(), dir+"/from", dir+to, nil); core.KindOf(err) != core.Invalid || core.Remedy(err) == "" {
			t.Errorf("to %s: %v", to, err)
		}
	}
	must(t, Copy(t.Context(), dir+"/from", dir+"/from2", nil))
}

func TestProgress(t *testing.T) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/f", make([]byte, 3<<20), 0o644))
	var sent, copied int64
	must(t, Send(t.Context(), io.Discard, dir+"/f", func(n int64) { sent = n }))
	must(t, Copy(t.Context(), dir+"/f", dir+"/g", func(n int64) { copied = n }))
	if sent != 3<<20 || copied != 3<<20 {
		t.Errorf("sent %d, copied %d", sent, copied)
	}
}

func FuzzReceive(f *testing.F) {
	f.Add(hostile(kindOne, func(e *encoder) { _ = e.top(""); _ = e.enter(&meta{kind: kindDir}); _ = e.leave() })[magicLen+blockHead:])
	f.Fuzz(func(t *testing.T, records []byte) {
		if len(records) == 0 || len(records) > 4096 {
			return
		}
		// The checksum is no defence against a sender who means ill.
		var b bytes.Buffer
		e := newEncoder(&b, kindMany, nil)
		e.buf = append(e.buf, records...)
		_ = e.last()
		dir := t.TempDir()
		_ = Receive(context.Background(), &b, dir+"/a/to")
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			if e.Name() != "a" {
				t.Fatalf("wrote outside: %s", e.Name())
			}
		}
	})
}

func BenchmarkStream(b *testing.B) {
	dir := b.TempDir()
	must(b, os.WriteFile(dir+"/f", make([]byte, 256<<20), 0o644))
	b.SetBytes(256 << 20)
	for b.Loop() {
		r, w, err := os.Pipe()
		must(b, err)
		go func() { _ = Send(context.Background(), w, dir+"/f", nil); w.Close() }()
		must(b, Receive(context.Background(), r, dir+"/g"))
		r.Close()
	}
}

func BenchmarkSmallFiles(b *testing.B) {
	dir := b.TempDir()
	for i := range 2000 {
		must(b, os.MkdirAll(fmt.Sprintf("%s/t/%d", dir, i%50), 0o755))
		must(b, os.WriteFile(fmt.Sprintf("%s/t/%d/%d", dir, i%50, i), make([]byte, 1000), 0o644))
	}
	b.Run("copy", func(b *testing.B) {
		for b.Loop() {
			must(b, Copy(context.Background(), dir+"/t", dir+"/u", nil))
		}
	})
}

// TestADirectoryThatIsRemovedMeanwhile is not sent as if what is left of it was all.
func TestADirectoryThatIsRemovedMeanwhile(t *testing.T) {
	for name, then := range map[string]func(dir string) error{
		"removed":  func(string) error { return nil },
		"replaced": func(dir string) error { return os.Mkdir(dir, 0o700) },
	} {
		dir := filepath.Join(t.TempDir(), "dir")
		for _, sub := range []string{"a", "b"} {
			must(t, os.MkdirAll(filepath.Join(dir, sub), 0o700))
			must(t, os.WriteFile(filepath.Join(dir, sub, "file"), make([]byte, 1<<20), 0o600))
		}
		var stream bytes.Buffer
		var once sync.Once // at its first bytes
		err := Send(t.Context(), &stream, dir, func(int64) {
			once.Do(func() { must(t, errors.Join(os.Rename(dir, dir+".gone"), fsutil.RemoveAll(dir+".gone"), then(dir))) })
		})
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: sent with %v", name, err)
		}
		into := filepath.Join(t.TempDir(), "copy")
		if err := Receive(t.Context(), &stream, into); err == nil {
			t.Errorf("%s: received as if it was whole", name)
		}
	}
}
