package head

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestTheMarginInAShortSlot: what a site has really granted leaves a job time to
// compute, whatever earlier checkpoints took.
func TestTheMarginInAShortSlot(t *testing.T) {
	for name, c := range map[string]struct {
		left          time.Duration
		checkpoint    *plan.Checkpoint
		margin, grace time.Duration
		reported      bool
	}{
		"no checkpoint":            {time.Minute, nil, 20 * time.Second, 10 * time.Second, false},
		"enough":                   {time.Hour, &plan.Checkpoint{Grace: 90 * time.Second, Margin: 10 * time.Minute, Least: 70 * time.Second}, 10 * time.Minute, 90 * time.Second, false},
		"half as much as asked":    {10 * time.Minute, &plan.Checkpoint{Grace: 90 * time.Second, Margin: 8 * time.Minute, Least: 70 * time.Second}, 5 * time.Minute, 90 * time.Second, true},
		"half but for a moment":    {30*time.Second - 20*time.Millisecond, &plan.Checkpoint{Grace: 3 * time.Second, Margin: 15 * time.Second, Least: 13 * time.Second}, 15*time.Second - 10*time.Millisecond, 3 * time.Second, false},
		"less than was learned":    {4 * time.Minute, &plan.Checkpoint{Grace: 3 * time.Minute, Margin: 5 * time.Minute, Least: 70 * time.Second}, 2 * time.Minute, 110 * time.Second, true},
		"the Beefile's, as it is":  {80 * time.Second, &plan.Checkpoint{Grace: time.Minute, Margin: 70 * time.Second, Least: 70 * time.Second}, 70 * time.Second, time.Minute, false},
		"less than the Beefile's":  {time.Minute, &plan.Checkpoint{Grace: time.Minute, Margin: 70 * time.Second, Least: 70 * time.Second}, 30 * time.Second, 20 * time.Second, true},
		"next to nothing is there": {10 * time.Second, &plan.Checkpoint{Grace: time.Minute, Margin: 70 * time.Second, Least: 70 * time.Second}, 5 * time.Second, 2500 * time.Millisecond, true},
	} {
		j, err := journal.New(filepath.Join(t.TempDir(), "events"))
		if err != nil {
			t.Fatal(err)
		}
		h := &Head{plan: &plan.Plan{Grace: 10 * time.Second, Checkpoint: c.checkpoint}, journal: j}
		margin, grace := h.marginIn(c.left)
		if margin != c.margin || grace != c.grace {
			t.Errorf("%s: %s before the end, %s of it the job's", name, margin, grace)
		}
		if reported := len(eventsOf(j)) > 0; reported != c.reported {
			t.Errorf("%s: said %+v", name, eventsOf(j))
		}
	}
}
