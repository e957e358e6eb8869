package outputs

import (
	"fmt"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
)

// TestHowMuchOfTheOutputsIsStillToCome: of all of them together.
func TestHowMuchOfTheOutputsIsStillToCome(t *testing.T) {
	var got []string
	c := &Collector{Site: &transfer.Site{Progress: func(_ core.Phase, what string, total int64) func(int64) {
		return func(done int64) { got = append(got, fmt.Sprint(what, " ", done, " of ", total)) }
	}}}
	report := c.fetchingAll([]output{{remote: "a", bytes: 10}, {remote: "b", bytes: 20}})
	report(0, 4)
	report(1, 20)
	report(0, 12) // a part of it has travelled twice
	report = c.fetchingAll([]output{{remote: "x/c", bytes: 7}})
	report(0, 7)
	want := []string{"fetching 2 outputs 4 of 30", "fetching 2 outputs 24 of 30", "fetching 2 outputs 32 of 30", "fetching c 7 of 7"}
	if !slices.Equal(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
}
