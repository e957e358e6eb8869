package treesync

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/procid"
	"golang.org/x/sys/unix"
)

// An index that is cut short or damaged at either end, or of another version, or from
// before the machine was started again, is none.
func TestADamagedIndexIsNone(t *testing.T) {
	boot, err := procid.Boot()
	must(t, err)
	for name, harm := range map[string]func(b []byte) []byte{
		"empty":           func([]byte) []byte { return nil },
		"cut":             func(b []byte) []byte { return b[:len(b)/2] },
		"longer":          func(b []byte) []byte { return append(b, 0) },
		"bit flipped":     func(b []byte) []byte { b[len(b)/2] ^= 4; return b },
		"another version": func(b []byte) []byte { return signed(bytes.Replace(b, []byte("ix1"), []byte("ix0"), 1)) },
		"another start": func(b []byte) []byte {
			x, err := decodeIndex(b, boot)
			must(t, err)
			return x.encode("another")
		},
		"another file system": func(b []byte) []byte {
			x, err := decodeIndex(b, boot)
			must(t, err)
			x.dev++
			return x.encode(boot)
		},
	} {
		for _, end := range []string{"from", "first"} {
			t.Run(name+", "+end, func(t *testing.T) {
				dir := t.TempDir()
				from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
				pages(t, from)
				over(t, from, first, "")
				b, err := os.ReadFile(indexName(filepath.Join(dir, end)))
				must(t, err)
				must(t, os.WriteFile(indexName(filepath.Join(dir, end)), harm(b), 0o600))
				secretly(t, page(from, 1), rewrite(t))
				c := carry(t, from, second, first, nil)
				must(t, c.err)
				if c.accepted() != 0 {
					t.Errorf("%d files were not read", c.accepted())
				}
				same(t, describe(t, from), describe(t, second))
			})
		}
	}
}

// signed renews the checksum of an index.
func signed(b []byte) []byte {
	end := len(b) - len(sum{})
	name := sumOf(b[:end])
	return append(b[:end:end], name[:]...)
}

// A copy that decays on its disk, its stamp as it was, is found when it is copied. All
// is read the next time, and then what is right arrives.
func TestDecayOfTheCopyIsFound(t *testing.T) {
	dir := t.TempDir()
	from, first, second := filepath.Join(dir, "from"), filepath.Join(dir, "first"), filepath.Join(dir, "second")
	n := pages(t, from)
	over(t, from, first, "")
	// No program can do that to a file; so the index is made to say that it was so.
	boot, err := procid.Boot()
	must(t, err)
	b, err := os.ReadFile(indexName(first))
	must(t, err)
	x, err := decodeIndex(b, boot)
	must(t, err)
	secretly(t, page(first, 5), rewrite(t))
	for _, e := range x.files {
		if e.path == "d1/5" {
			var st unix.Stat_t
			must(t, unix.Lstat(page(first, 5), &st))
			e.stamp = stampOf(&st)
		}
	}
	must(t, os.WriteFile(indexName(first), x.encode(boot), 0o600))
	must(t, os.WriteFile(filepath.Join(from, "more"), noise(20<<20, 7), 0o600))
	if c := carry(t, from, second, first, nil); !core.IsKind(c.err, core.Transient) || c.accepted() != n {
		t.Fatalf("%d files were not read; %v", c.accepted(), c.err)
	}
	if _, err := os.Lstat(second); err == nil {
		t.Error("it was made all the same")
	}
	if _, err := os.Lstat(indexName(first)); err == nil {
		t.Error("the index is there still")
	}
	c := carry(t, from, second, first, nil)
	must(t, c.err)
	same(t, describe(t, from), describe(t, second))
	noLeftovers(t, dir)
}

// Where the clock was put back, files are from its future: another change may leave the
// ctime that they have.
func TestFilesOfTheFutureAreRead(t *testing.T) {
	dir := t.TempDir()
	n := pages(t, filepath.Join(dir, "from"))
	from, all := filepath.Join(dir, "from"), newNumbers(n)
	for i := range n {
		all.add(i)
	}
	for _, c := range []struct {
		back int64
		want int
	}{{0, n}, {3600e9, 0}} {
		j := newJournal(from, transferID{1})
		if j == nil {
			t.Fatal("no index can be kept here")
		}
		for i := range n {
			var st unix.Stat_t
			must(t, unix.Lstat(page(from, i), &st))
			j.set(j.add(fmt.Sprintf("d%d/%d", i%4, i)), &meta{}, &st, 0, true)
		}
		j.now -= c.back
		j.keep()
		j.close()
		x := readIndex(from)
		if x == nil {
			t.Fatal("there is no index")
		}
		if a := x.unchanged(from, all); len(a.number) != c.want {
			t.Errorf("%d files count as unchanged, want %d", len(a.number), c.want)
		}
	}
	for _, c := range []struct {
		now, ctime int64
		racy       bool
	}{{5e9 + 1, 5e9 - 1, false}, {5e9 + 1, 5e9 + 1, true}, {5e9 + 1, 5e9 + 2, true}, {5e9 + 1, 4e9, true}, {5e9 + 1, 3e9, false}} {
		if got := (&journal{now: c.now}).isRacy(c.ctime); got != c.racy {
			t.Errorf("%d at %d: %v", c.ctime, c.now, got)
		}
	}
}

func FuzzIndex(f *testing.F) {
	x := &index{id: transferID{1, 2}, dev: 7, files: []*entry{{path: "a/b", stamp: stamp{1, 2, 3}, check: 4, whole: true}, {path: "a/c", stamp: stamp{5, 6, 2}, racy: true}}}
	whole := x.encode("boot")
	f.Add(whole[:len(whole)-len(sum{})])
	f.Fuzz(func(t *testing.T, b []byte) {
		name := sumOf(b) // the checksum is no defence against who means ill
		x, err := decodeIndex(append(slices.Clone(b), name[:]...), "boot")
		if err != nil {
			return
		}
		again, err := decodeIndex(x.encode("boot"), "boot")
		if err != nil || again.id != x.id || again.dev != x.dev || len(again.files) != len(x.files) {
			t.Fatalf("%v", err)
		}
		for i, e := range x.files {
			if *again.files[i] != *e || !filepath.IsLocal(e.path) {
				t.Fatalf("%+v became %+v", e, again.files[i])
			}
		}
	})
}
