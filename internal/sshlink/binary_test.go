package sshlink

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
	"golang.org/x/sys/unix"
)

func TestBinaryIsBroughtOnceAndWhole(t *testing.T) {
	f := sshfarm.Start(t, 1)
	p := client(t, f)
	var progress, all int64
	p.s.Progress = func(what string, done, total int64) {
		if !strings.HasSuffix(what, " h0") || done < progress {
			t.Errorf("%s: %d of %d after %d", what, done, total, progress)
		}
		progress, all = done, total
	}
	installed := func() []string {
		found, err := filepath.Glob(f.There(filepath.Join(f.Dir, "cache", "bee", "bin", "*")))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	login(t, p, "h0")
	first := installed()
	if len(first) != 1 {
		t.Fatalf("installed: %v", first)
	}
	if all == 0 || progress != all {
		t.Errorf("reported were %d of %d bytes", progress, all)
	}
	progress, all = 0, 0
	// It looks used, also on a file system that keeps no access times.
	used := time.Now().Add(-time.Hour)
	if err := os.Chtimes(first[0], used, used.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(first[0])
	if err != nil {
		t.Fatal(err)
	}
	login(t, p, "h0")
	after, err := os.Stat(first[0])
	if err != nil || !os.SameFile(before, after) || !after.ModTime().Equal(before.ModTime()) || all > 0 {
		t.Errorf("the binary was sent again: %v", err)
	}
	var st unix.Stat_t
	if err := unix.Stat(first[0], &st); err != nil || !time.Unix(st.Atim.Unix()).After(used) {
		t.Errorf("%v: a binary that is used looks as if it was not since %v", err, time.Unix(st.Atim.Unix()))
	}
}

// TestCopiesThatCannotBeUsedAreReplaced: what is in a host's cache under the name of
// this binary may have come to any harm, and other versions are beside it.
func TestCopiesThatCannotBeUsedAreReplaced(t *testing.T) {
	f := sshfarm.Start(t, 1)
	p := client(t, f)
	binaries, err := p.binaries()
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	dir := f.There(filepath.Join(f.Dir, "cache", "bee", "bin"))
	path := filepath.Join(dir, "bee-"+binaries[runtime.GOARCH].sum)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	harmed := bytes.Repeat([]byte("\n"), len(whole)) // as long as it shall be
	for _, c := range []struct {
		name string
		data []byte
		mode os.FileMode
	}{
		{"empty", nil, 0o700},
		{"cut short early", whole[:4096], 0o700},
		{"cut short late", whole[:len(whole)/4*3], 0o700},
		{"other content", harmed, 0o700},
		{"not executable", whole, 0o600},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, c.data, c.mode)); err != nil {
				t.Fatal(err)
			}
			login(t, p, "h0")
			if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, whole) {
				t.Errorf("it was not replaced: %d bytes, %v", len(got), err)
			}
		})
	}
	versions := map[string]bool{"bee-recent": true, "bee-forgotten": false}
	for name, stays := range versions {
		used := time.Now()
		if !stays {
			used = used.AddDate(-1, 0, 0)
		}
		if err := errors.Join(core.WriteProgram(filepath.Join(dir, name), whole[:10], 0o700), os.Chtimes(filepath.Join(dir, name), used, used), os.Chmod(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	login(t, p, "h0")
	for name, stays := range versions {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}
