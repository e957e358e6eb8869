package store

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Bounds of what a store says: more than any run has.
const (
	// MostRecord is the largest record of a run.
	MostRecord = 16 << 20
	// MostManifest is the largest manifest: of some two million files.
	MostManifest = 256 << 20
	// MostManifests is the largest size of all manifests of a run.
	MostManifests = 2 * MostManifest
	// MostNames is how many runs, or checkpoints of one, are looked at.
	MostNames = 100000
)

// CheckList refuses what a place that another user keeps lists of a run where that
// cannot be, and calls broken what has no manifest that can be.
func CheckList(list []driver.Checkpoint) error {
	if len(list) > MostNames {
		return TooMany(len(list))
	}
	seen := map[driver.Generation]bool{}
	for i := range list {
		k := &list[i]
		if g, ok := driver.ParseGeneration(k.String()); !ok || g != k.Generation || g.Attempt < 0 || g.Snapshot < 0 || seen[g] {
			return &core.Error{Kind: core.Invalid, Op: "list checkpoints", Err: fmt.Errorf("%q is there twice, or cannot be", k.String()), Remedy: "Something else than bee has written to the store."}
		}
		seen[k.Generation] = true
		if !k.Broken && k.Manifest.Valid(k.Generation) != nil {
			k.Broken = true
		}
		if k.Broken {
			k.Manifest = driver.Manifest{Attempt: k.Attempt}
		}
	}
	return nil
}

// TooMany is the error of a list that is longer than a store has.
func TooMany(n int) error {
	return &core.Error{Kind: core.Invalid, Op: "list", Err: fmt.Errorf("%d entries or more are there; at most %d are looked at", n, MostNames), Remedy: "Something else than bee has written to the store: remove that, or use another directory."}
}

// TooLarge is the error of manifests that are larger than a run has.
func TooLarge() error {
	return &core.Error{Kind: core.Invalid, Op: "list checkpoints", Err: fmt.Errorf("their manifests have more than %d bytes", MostManifests), Remedy: "Something else than bee has written to the store: remove that, or use another directory."}
}

// CheckSizes refuses the manifests of a run in a store where they are larger than any can be.
func CheckSizes(sizes []int64) error {
	total := int64(0)
	for _, n := range sizes {
		if n < 0 || n > MostManifest {
			return TooLarge()
		}
		if total += n; total > MostManifests {
			return TooLarge()
		}
	}
	if len(sizes) > MostNames {
		return TooMany(len(sizes))
	}
	return nil
}
