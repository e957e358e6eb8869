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
