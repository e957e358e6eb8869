package burst

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestNamesThatAreNoText has names and targets of links that are not UTF-8 on the remote: they are
// not seen, and the journal can be read again. Ours are refused.
func TestNamesThatAreNoText(t *testing.T) {
	b := start(t, Options{})
	for _, name := range []string{"gr\xfcn", "gr\xf6n", "plain"} {
		b.must(os.WriteFile(filepath.Join(b.far, name), nil, 0o600))
	}
	b.must(os.Symlink("gr\xfcn", filepath.Join(b.far, "link")))
	check := func() {
		t.Helper()
		if list, err := b.names.List(t.Context(), meta.Root); err != nil || len(list) != 1 || list[0].Name != "plain" {
			t.Errorf("%+v, %v", list, err)
		}
	}
	check()
	for _, q := range []*calls.Request{{Ino: meta.Root, Name: "\xff", Data: []byte("x")}, {Ino: meta.Root, Name: "x", Data: []byte("\xff")}} {
		if _, err := b.Make(t.Context(), who{}, remote.Link, q); !errors.Is(err, syscall.EILSEQ) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	b.crash()
	check()
	if name := remote.Conflict(strings.Repeat("ä", 127), "test"); !utf8.ValidString(name) {
		t.Errorf("%q is no text", name)
	}
}

// TestLongNames refuses names and paths in new directories that no remote accepts.
func TestLongNames(t *testing.T) {
	b := start(t, Options{})
	dir := b.make(remote.Dir, "new", "")
	q := &calls.Request{Ino: dir, Name: strings.Repeat("n", 256), Mode: 0o755}
	if _, err := b.Make(t.Context(), who{}, remote.File, q); !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long name: %v", err)
	}
	q.Name = q.Name[1:]
	var err error
	for range 20 {
		var a calls.Attr
		if a, err = b.Make(t.Context(), who{}, remote.Dir, q); err != nil {
			break
		}
		q = &calls.Request{Ino: a.Ino, Name: q.Name, Mode: 0o755}
	}
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long path: %v", err)
	}
	b.drained()
}

// TestReadOnlyDirectory writes to a file in a directory that was made read-only, as its owner may.
func TestReadOnlyDirectory(t *testing.T) {
	b := start(t, Options{})
	dir := b.make(remote.Dir, "d", "")
	b.fileIn(dir, "f", "before")
	_, err := b.SetAttr(t.Context(), who{}, &calls.Request{Ino: dir, Valid: calls.SetMode, Mode: 0o555})
	b.must(err)
	t.Cleanup(func() { b.must(os.Chmod(filepath.Join(b.far, "d"), 0o755)) }) // so that it can be removed
	b.drained()
	b.fileIn(dir, "f", "after!")
	b.drained()
	b.has(map[string]string{"d": directory, "d/f": "after!"})
	if info, err := os.Stat(filepath.Join(b.far, "d")); err != nil || info.Mode().Perm() != 0o555 {
		t.Errorf("%v, %v", info, err)
	}
}
