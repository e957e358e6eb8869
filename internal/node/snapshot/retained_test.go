package snapshot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestSnapshotsStayForTheirReaders: the last two stay, and those that are read.
func TestSnapshotsStayForTheirReaders(t *testing.T) {
	k := Retain(t.TempDir())
	keep := func(n int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Join(plan.SnapshotDir(k.dir, n), "node0"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := k.Prune(n); err != nil {
			t.Fatal(err)
		}
	}
	there := func(want ...string) {
		t.Helper()
		var names []string
		entries, err := os.ReadDir(filepath.Join(k.dir, "snapshots"))
		for _, e := range entries {
			names = append(names, e.Name())
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("there are %q (%v), want %q", names, err, want)
		}
	}
	keep(1)
	one, err := k.Pin(1)
	if err != nil {
		t.Fatal(err)
	}
	again, err := k.Pin(1)
	if err != nil {
		t.Fatal(err)
	}
	keep(2)
	keep(3)
	keep(4)
	there("1", "3", "4")
	one()
	keep(5)
	there("1", "4", "5")
	again()
	keep(6)
	there("5", "6")
	if _, err := k.Pin(1); !core.IsKind(err, core.NotFound) {
		t.Errorf("one that has made way: %v", err)
	}
}
