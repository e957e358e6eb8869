package state

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// programOf is a process's program with some content, as one of a store's binaries.
func programOf(t *testing.T, s *Store, content string) (b Binaries, installed string) {
	t.Helper()
	b, installed = s.Binaries(), filepath.Join(t.TempDir(), "bee")
	if err := core.WriteProgram(installed, []byte(content), 0o755); err != nil {
		t.Fatal(err)
	}
	b.self = installed
	return b, installed
}

func keep(t *testing.T, s *Store, content string) Binary {
	t.Helper()
	b, installed := programOf(t, s, content)
	kept, err := b.Keep(t.Context(), installed)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(kept.Path); err != nil || string(raw) != content {
		t.Fatalf("kept is %q, %v", raw, err)
	}
	return kept
}

// TestBinariesAreKeptWhileTheyAreNeeded: by a process, or by an attempt that is not closed.
func TestBinariesAreKeptWhileTheyAreNeeded(t *testing.T) {
	s := open(t, t.TempDir())
	run := Run{ID: "aaaa1111", State: SetAside, Created: time.Now(), Submission: []byte("{}")}
	if err := s.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	old := keep(t, s, "old")
	at := Attempt{Run: run.ID, N: 1, State: Computing, Started: time.Now(), Record: Record{Binary: old.Digest}}
	if err := s.PutAttempt(t.Context(), at, false); err != nil {
		t.Fatal(err)
	}
	there := func(what string, want bool) {
		t.Helper()
		if _, err := s.Binaries().Find(old.Digest); (err == nil) != want || err != nil && (!core.IsKind(err, core.NotFound) || core.Remedy(err) == "") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := old.Release(); err != nil {
		t.Fatal(err)
	}
	again := keep(t, s, "new")
	there("while its attempt runs", true)
	used := keep(t, s, "old")
	at.State = Closed
	if err := errors.Join(s.PutAttempt(t.Context(), at, false), s.Binaries().Prune(t.Context())); err != nil {
		t.Fatal(err)
	}
	there("while a process uses it", true)
	if err := errors.Join(used.Release(), s.Binaries().Prune(t.Context())); err != nil {
		t.Fatal(err)
	}
	there("when nothing needs it", false)
	if _, err := s.Binaries().Find(again.Digest); err != nil {
		t.Errorf("the one in use went with it: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(s.Dir(), "binaries", "*")); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestADamagedBinary is not executed, and made again by the program that it is of.
func TestADamagedBinary(t *testing.T) {
	s := open(t, t.TempDir())
	b, installed := programOf(t, s, "a program")
	kept, err := b.Keep(t.Context(), installed)
	if err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func() error{
		"changed":        func() error { return core.WriteProgram(kept.Path, []byte("no program"), 0o755) },
		"as long":        func() error { return core.WriteProgram(kept.Path, []byte("a Program"), 0o755) },
		"gone":           func() error { return os.Remove(kept.Path) },
		"not executable": func() error { return os.Chmod(kept.Path, 0) },
		"all gone":       func() error { return os.RemoveAll(filepath.Dir(kept.Path)) },
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Find(kept.Digest); !core.IsKind(err, core.NotFound) || !strings.Contains(core.Remedy(err), kept.Digest) {
			t.Errorf("%s: %v, %q", name, err, core.Remedy(err))
		}
		again, err := b.Keep(t.Context(), installed)
		if err == nil {
			_, err = b.Find(again.Digest)
		}
		if err != nil || again.Path != kept.Path {
			t.Errorf("%s: it is not made again: %+v, %v", name, again, err)
		}
	}
	if _, err := b.Find("../../" + kept.Digest); !core.IsKind(err, core.NotFound) {
		t.Errorf("a path in place of a digest: %v", err)
	}
}

// TestBinariesAreForTheirUserAlone: others reach none, and one that others could replace is
// not executed.
func TestBinariesAreForTheirUserAlone(t *testing.T) {
	s := open(t, t.TempDir())
	b, installed := programOf(t, s, "a program")
	umask := unix.Umask(0)
	kept, err := b.Keep(t.Context(), installed)
	unix.Umask(umask)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(kept.Path)
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", at, info, err)
		}
	}
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if err := os.Chmod(at, 0o777); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Binaries().Find(kept.Digest); !core.IsKind(err, core.NotFound) {
			t.Errorf("others can write to %s: %+v, %v", at, got, err)
		}
		if got, err := b.Keep(t.Context(), installed); err == nil || got.Path != "" {
			t.Errorf("others can write to %s: it is kept as %+v", at, got)
		}
		if err := os.Chmod(at, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Binaries().Find(kept.Digest); err != nil {
		t.Error(err)
	}
}

// TestAnUnchangedBinaryIsNotRead to know its digest, and one for another architecture is
// beside it.
func TestAnUnchangedBinaryIsNotRead(t *testing.T) {
	s := open(t, t.TempDir())
	b, installed := programOf(t, s, "a program")
	other := filepath.Join(filepath.Dir(installed), "bee-linux-arm64")
	if err := core.WriteProgram(other, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	kept, err := b.Keep(t.Context(), installed)
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(filepath.Join(filepath.Dir(kept.Path), "bee-linux-arm64")); err != nil || string(raw) != "another" {
		t.Errorf("beside it is %q, %v", raw, err)
	}
	info, err := os.Stat(installed)
	if err != nil {
		t.Fatal(err)
	}
	b.self = filepath.Join(t.TempDir(), "none") // so that reading fails
	if got, err := b.digestOfSelf(info); err != nil || got != kept.Digest {
		t.Errorf("got %q, %v", got, err)
	}
	if err := core.WriteProgram(installed, []byte("a Program"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.self = installed
	if info, err = os.Stat(installed); err != nil {
		t.Fatal(err)
	}
	if got, err := b.digestOfSelf(info); err != nil || got == kept.Digest {
		t.Errorf("of a changed one: %q, %v", got, err)
	}
}
