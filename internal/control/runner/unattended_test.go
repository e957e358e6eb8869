package runner

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// TestTimeWithoutAController has a name where the attempt had ended before this one came. The
// clock of the site cannot make it longer than what has none.
func TestTimeWithoutAController(t *testing.T) {
	for name, c := range map[string]struct {
		ended  time.Duration // ago
		unseen bool
		want   time.Duration
	}{
		"a while ago":         {5 * time.Second, true, 5 * time.Second},
		"before it had begun": {time.Hour, true, 12 * time.Second},
		"in the future":       {-time.Hour, true, 0},
		"as it was watched":   {5 * time.Second, false, 0},
	} {
		now := time.Now()
		h := headReports{rec: &record{Attempt: state.Attempt{Started: now.Add(-20 * time.Second), Record: state.Record{Phases: map[core.Phase]time.Duration{}}}}}
		h.account(t.Context(), &protocol.Result{Ended: now.Add(-c.ended), Phases: map[core.Phase]time.Duration{core.PhaseRun: 8 * time.Second}}, c.unseen)
		if got := h.rec.Phases[core.PhaseUnattended]; got < c.want || c.want == 0 && got > 0 || got > c.want+10*time.Second {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
