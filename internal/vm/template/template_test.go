package template

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// damage changes one bit of a file where it is not zero.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := int64(-1)
	if _, err := ReadBlocks(f, func(from int64, _ []byte) error { at = from; return nil }); err != nil || at < 0 {
		t.Fatalf("nothing in %s (%v)", path, err)
	}
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at+100); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b, at+100); err != nil {
		t.Fatal(err)
	}
}

// The content of a file is the same with holes and without, and another one with
// any bit changed.
func TestContentOfFiles(t *testing.T) {
	dir := t.TempDir()
	full := make([]byte, 3<<20+777)
	copy(full[5*blockSize:], "here")
	copy(full[2<<20-3:], strings.Repeat("and there", 3000))
	full[len(full)-1] = 1
	path := filepath.Join(dir, "full")
	if err := os.WriteFile(path, full, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was, err := CopyBlocks(f, filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, "copy")); err != nil || string(raw) != string(full) {
		t.Fatalf("the copy differs (%v)", err)
	}
	sum := func() Content {
		c, err := os.Open(filepath.Join(dir, "copy"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		is, err := ReadBlocks(c, nil)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	if is := sum(); is != was {
		t.Errorf("%+v, and its copy with holes %+v", was, is)
	}
	damage(t, filepath.Join(dir, "copy"))
	if is := sum(); is == was {
		t.Error("damage changes nothing")
	}
}

// Only those templates are kept that were used last, one that never worked is
// not tried again, and one that is wanted once is not made.
func TestWhichTemplatesAreKept(t *testing.T) {
	dir := t.TempDir()
	var reported []string
	is := func(k Template, build func() error) bool {
		t.Helper()
		ready, err := k.Ready(t.Context(), func(message string) { reported = append(reported, message) }, build)
		if err != nil {
			t.Errorf("%s: %v", k.Key, err)
		}
		return ready
	}
	begun := time.Now()
	put := func(k Template, age int) func() error {
		return func() error {
			when := begun.Add(-time.Duration(age) * time.Hour)
			if age < 0 {
				when = neverUsed
			}
			if err := os.MkdirAll(k.Path(), 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(k.File(Record), []byte("{}"), 0o600); err != nil {
				return err
			}
			return os.Chtimes(k.File(Record), when, when)
		}
	}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		k := Template{dir, name}
		if is(k, put(k, 10-i)) || len(reported) != i {
			t.Fatalf("%s is there when it is wanted for the first time: %q", name, reported)
		}
		if !is(k, put(k, 10-i)) || !is(k, nil) || len(reported) != i+1 {
			t.Fatalf("%s was not made when it was due: %q", name, reported)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", Record)); len(left) != mostTemplates || strings.Contains(strings.Join(left, ""), "/a/") {
		t.Errorf("kept: %q", left)
	}
	never := Template{dir, "never"}
	is(never, nil)
	if !is(never, put(never, -1)) {
		t.Fatal("it was not made")
	}
	never.Drop()
	if is(never, put(never, -1)) {
		t.Error("a template that never worked is made again")
	}
}
