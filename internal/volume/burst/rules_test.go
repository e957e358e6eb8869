package burst

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestProtect leaves all that the remote had before as it is, in each way to change it, and after a
// crash too. What was made since is the program's.
func TestProtect(t *testing.T) {
	b := start(t, Options{Protect: true})
	b.must(os.Mkdir(filepath.Join(b.far, "d"), 0o755))
	b.foreign("d/f", "before")
	b.foreign("f", "before")
	before := map[string]string{"d": directory, "d/f": "before", "f": "before"}
	check := func() {
		t.Helper()
		find := func(dir uint64, name string) uint64 {
			a, err := b.names.Lookup(t.Context(), dir, name)
			b.must(err)
			return a.Ino
		}
		file, dir := find(meta.Root, "f"), find(meta.Root, "d")
		inside := find(dir, "f")
		b.file("ours", "ours")
		b.fileIn(dir, "ours", "ours")
		_, opened := b.Volume.open(t.Context(), who{}, file, calls.Writing)
		_, mode := b.SetAttr(t.Context(), who{}, &calls.Request{Ino: dir, Valid: calls.SetMode, Mode: 0o700})
		_, size := b.SetAttr(t.Context(), who{}, &calls.Request{Ino: inside, Valid: calls.SetSize})
		for what, err := range map[string]error{
			"open": opened, "mode": mode, "size": size,
			"write":       b.Write(t.Context(), file, 0, []byte("x")),
			"truncate":    b.resize(t.Context(), who{}, inside, 0, false),
			"remove":      b.Remove(t.Context(), who{}, &calls.Request{Ino: dir, Name: "f"}),
			"rename":      b.Rename(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "d", ToDir: meta.Root, ToName: "e"}),
			"rename over": b.Rename(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "ours", ToDir: meta.Root, ToName: "f"}),
		} {
			if !errors.Is(err, syscall.EROFS) {
				t.Errorf("%s: %v", what, err)
			}
		}
		b.drained()
		if got := tree(t, b.far); got["ours"] != "ours" || got["d/ours"] != "ours" {
			t.Errorf("the remote has %v", got)
		}
		b.rename("ours", "renamed")
		b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: dir, Name: "ours"}))
		b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "renamed"}))
		b.drained()
		b.has(before)
	}
	check()
	b.crash()
	check()
}

// TestLocal has a local directory of which the remote has something of that name: neither sees the other.
func TestLocal(t *testing.T) {
	b := start(t, Options{Local: []string{"d/tmp"}})
	b.must(os.MkdirAll(filepath.Join(b.far, "d/tmp"), 0o755))
	b.foreign("d/tmp/f", "theirs")
	dir, err := b.names.Lookup(t.Context(), meta.Root, "d")
	b.must(err)
	if list, err := b.names.List(t.Context(), dir.Ino); err != nil || len(list) != 0 {
		t.Errorf("%v, %v", list, err)
	}
	if _, err := b.names.Lookup(t.Context(), dir.Ino, "tmp"); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("look up: %v", err)
	}
	q := &calls.Request{Ino: dir.Ino, Name: "tmp", Mode: 0o755}
	tmp, err := b.Make(t.Context(), who{}, remote.Dir, q)
	b.must(err)
	b.fileIn(tmp.Ino, "f", "ours")
	b.fileIn(dir.Ino, "out", "drained")
	b.drained()
	want := map[string]string{"d": directory, "d/out": "drained", "d/tmp": directory, "d/tmp/f": "theirs"}
	b.has(want)
	b.crash()
	a, err := b.names.Lookup(t.Context(), tmp.Ino, "f")
	b.must(err)
	if p, err := b.Read(t.Context(), a.Ino, 0, 10); err != nil || string(p) != "ours" {
		t.Errorf("%q, %v", p, err)
	}
	if s := b.Status(); s.Local != 4 || !s.Drained {
		t.Errorf("%+v", s)
	}
	if list, err := b.names.List(t.Context(), dir.Ino); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	b.has(want)
}
