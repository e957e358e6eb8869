package dir

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/store"
)

// localTree is a directory of this machine, as a source and as a sink.
type localTree = store.Tree

const generations = store.Generations

// gen is a generation.
func gen(attempt, snapshot int) driver.Generation {
	return driver.Generation{Attempt: attempt, Snapshot: snapshot}
}

// keep makes a checkpoint with one file.
func keep(t *testing.T, dir string, g driver.Generation, text string) (made bool) {
	t.Helper()
	m, made, err := Checkpoints(dir).Keep(t.Context(), g, "here", store.FetchFunc(func(volume, _ string) error {
		if err := os.MkdirAll(volume, 0o700); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(volume, "state"), []byte(text), 0o600)
	}))
	if err != nil || m.Attempt != g.Attempt || len(m.Files) != 1 || m.Bytes != int64(len(text)) {
		t.Fatalf("%+v: %+v, %v", g, m, err)
	}
	return made
}

func TestTheLastTwoAreKeptInOrderOfAge(t *testing.T) {
	dir := t.TempDir()
	for _, step := range []struct {
		g         driver.Generation
		left, two driver.Generation
	}{
		{gen(1, 1), driver.Generation{}, gen(1, 1)},
		{gen(1, 2), gen(1, 1), gen(1, 2)},
		{gen(1, 10), gen(1, 2), gen(1, 10)},
		{gen(1, 0), gen(1, 10), gen(1, 0)}, // an attempt's end is its last
		{gen(2, 1), gen(1, 0), gen(2, 1)},
		{gen(2, 2), gen(1, 0), gen(2, 2)}, // and outlives copies of one that runs
		{gen(2, 3), gen(1, 0), gen(2, 3)},
		{gen(10, 0), gen(2, 3), gen(10, 0)},
	} {
		if !keep(t, dir, step.g, "x") {
			t.Errorf("%+v was there already", step.g)
		}
		list, err := Checkpoints(dir).List(t.Context())
		if err != nil || len(list) == 0 || list[len(list)-1].Generation != step.two || len(list) > 1 && list[0].Generation != step.left {
			t.Errorf("after %+v: %v, %v", step.g, list, err)
		}
	}
}

func TestAWholeOneIsLeftAsItIs(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, driver.Generation{Attempt: 1}, "first")
	if made, again := keep(t, dir, driver.Generation{Attempt: 2}, "second"), keep(t, dir, driver.Generation{Attempt: 2}, "second"); !made || again {
		t.Errorf("made %v, and again %v", made, again)
	}
}

func TestCutShortAndDamaged(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, driver.Generation{Attempt: 1}, "whole")
	for _, name := range []string{"2/volume", "01", "x", "3.0", "-1"} { // no manifests, and no names of ours
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Checkpoints(dir).List(t.Context())
	if err != nil || len(list) != 1 || Checkpoints(dir).Check(t.Context(), list[0]) != nil {
		t.Fatalf("%v, %v", list, err)
	}
	if err := os.WriteFile(filepath.Join(list[0].Dir, "more"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Checkpoints(dir).Check(t.Context(), list[0]); !errors.Is(err, driver.ErrDamaged) {
		t.Errorf("a file too many: %v", err)
	}
	if !keep(t, dir, driver.Generation{Attempt: 2}, "anew") {
		t.Error("a copy that was cut short counts")
	}
	for _, name := range []string{"3.1/volume", "9/volume"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	keep(t, dir, driver.Generation{Attempt: 3}, "whole")
	for name, stays := range map[string]bool{"2": true, "3.1": false, "3": true, "9": true, "x": true} { // what came before it is of no use
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != stays {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNothingCountsBeforeItIsOnTheDisk: the files are synced before the manifest has
// its name, and the name before older checkpoints go. A killed process does not
// show it, as what it wrote stays in memory.
func TestNothingCountsBeforeItIsOnTheDisk(t *testing.T) {
	for failing, syncs := range []int{2, 1, 2} { // the first or second that fails, or none
		dir := t.TempDir()
		keep(t, dir, driver.Generation{Attempt: 1}, "x")
		keep(t, dir, driver.Generation{Attempt: 2}, "x")
		exists := func(name string) bool {
			_, err := os.Stat(filepath.Join(dir, name))
			return err == nil
		}
		seen := 0
		d := Stepped{Checkpoints: Checkpoints(dir), Between: func() {}, syncing: func() error {
			seen++
			if !exists("3/volume/state") || exists("3/manifest.json") != (seen == 2) || !exists("1/manifest.json") {
				t.Errorf("sync %d comes at the wrong time", seen)
			}
			if seen == failing {
				return syscall.EIO
			}
			return nil
		}}
		_, made, err := d.Keep(t.Context(), driver.Generation{Attempt: 3}, "here", store.FetchFunc(func(volume, _ string) error {
			return os.CopyFS(volume, os.DirFS(filepath.Join(dir, "2/volume")))
		}))
		if seen != syncs || made != (failing == 0) || (err == nil) != (failing == 0) || exists("1/manifest.json") != (failing != 0) {
			t.Errorf("sync %d fails: %d syncs, made %v, %v", failing, seen, made, err)
		}
	}
}

func TestTheNewestIsTheBasis(t *testing.T) {
	dir := t.TempDir()
	keep(t, dir, driver.Generation{Attempt: 1}, "first")
	keep(t, dir, gen(1, 1), "older, of the same attempt")
	_, _, err := Checkpoints(dir).Keep(t.Context(), driver.Generation{Attempt: 2}, "here", store.FetchFunc(func(volume, before string) error {
		if raw, err := os.ReadFile(filepath.Join(before, "state")); err != nil || string(raw) != "first" {
			t.Errorf("the earlier copy holds %q, %v", raw, err)
		}
		return os.Mkdir(volume, 0o700)
	}))
	if err != nil {
		t.Error(err)
	}
}
