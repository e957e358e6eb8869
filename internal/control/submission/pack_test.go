package submission

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestPacksHaveAVersionOfTheirOwn: a controller that knows no packs would run each case once more, by itself.
func TestPacksHaveAVersionOfTheirOwn(t *testing.T) {
	for pack, want := range map[int]int{0: Version, 2: packedVersion} {
		store, err := state.Open(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		var subs []Submission
		for n := range 4 {
			subs = append(subs, Submission{
				Job: spec.Job{Name: fmt.Sprintf("m.%d", n+1), Nodes: 1, Volume: spec.Volume{Path: "/work"}}, Sites: []spec.Site{{Name: "a", Provider: "fake"}},
				Array: &ArrayCase{ID: "m", Name: "m", Number: n + 1, Of: 4, Pack: pack},
			})
		}
		if _, err := SubmitArray(t.Context(), store, subs); err != nil {
			t.Fatal(err)
		}
		runs, err := store.Runs(t.Context(), state.Filter{})
		if err != nil || len(runs) != 4+pack {
			t.Fatalf("packs of %d: %d runs, %v", pack, len(runs), err)
		}
		for _, r := range runs {
			var v struct{ Version int }
			if err := json.Unmarshal(r.Submission, &v); err != nil || v.Version != want {
				t.Errorf("packs of %d: %s has version %d, %v", pack, r.Name, v.Version, err)
			}
			if _, err := Of(r); err != nil {
				t.Errorf("packs of %d: %s: %v", pack, r.Name, err)
			}
		}
	}
}

// TestPacksRunAtMostSoManyCases at once, over all sites: those of the packs that run together, each
// of which has a share.
func TestPacksRunAtMostSoManyCases(t *testing.T) {
	for _, c := range []struct{ cases, atOnce, pack, packs, each int }{
		{100, 8, 25, 1, 8}, {100, 60, 25, 3, 20}, {100, 25, 25, 1, 25}, {100, 26, 25, 2, 13}, {100, 1, 25, 1, 1}, {100, 1000, 25, 40, 25}, {100, 0, 25, 0, 0}, {10, 3, 1, 3, 1},
	} {
		subs, runs := make([]Submission, c.cases), make([]state.Run, c.cases)
		for n := range subs {
			subs[n] = Submission{
				Version: packedVersion,
				Job:     spec.Job{Name: fmt.Sprintf("m.%d", n+1), Nodes: 1, Volume: spec.Volume{Path: "/work"}},
				Array:   &ArrayCase{ID: "m", Name: "m", Number: n + 1, Of: c.cases, Pack: c.pack, AtOnce: c.atOnce},
			}
		}
		packs, err := packsOf(runs, subs)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range packs {
			sub, err := Of(r)
			if err != nil {
				t.Fatal(err)
			}
			if r.Case.AtOnce != c.packs || sub.Array.AtOnce != c.packs || sub.Job.PackAtOnce != c.each || c.atOnce > 0 && c.packs*c.each > c.atOnce {
				t.Fatalf("%+v: %d packs, of each %d cases", c, r.Case.AtOnce, sub.Job.PackAtOnce)
			}
		}
	}
}
