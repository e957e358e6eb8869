package measure

import (
	"testing"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/inside"
)

// TestDigestsOfEachPoint: points of a study with programs of their own are digested each.
func TestDigestsOfEachPoint(t *testing.T) {
	var c contents
	for block := range 2 {
		for _, point := range []string{"bt", "cg", "ft"} {
			of := measured{"vm", point}
			found := fair.Found{Files: map[string]string{"/bin/" + point: "1"}}
			if c.detail(of) == inside.Digests {
				found.Programs = map[string]string{"/bin/" + point: "digest"}
			}
			c.complete(of, "image", &found)
			if found.Programs["/bin/"+point] != "digest" {
				t.Errorf("block %d: the programs of %s are %v", block, point, found.Programs)
			}
		}
	}
}
