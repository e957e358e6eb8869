package head

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// TestRecommendation: a checkpoint is taken where that can be done while the job runs, and the attempt continues.
func TestRecommendation(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration
		kept  int
	}{
		"a job that can be copied": {time.Hour, 1},
		"one that has to end":      {0, 0},
	} {
		h, volume := volumeHead(t)
		h.plan.Names, h.plan.Checkpoint.Every = []string{"h0"}, c.every
		if err := errors.Join(os.MkdirAll(volume, 0o700), os.WriteFile(filepath.Join(volume, "state"), []byte("1"), 0o600)); err != nil {
			t.Fatal(err)
		}
		h.saver.setRunning(t.Context())
		h.journal.Enter(core.PhaseRun)
		h.announced.recommended(h, 0)
		kept, remarks := 0, 0
		for _, e := range eventsOf(h.journal) {
			kept = max(kept, e.Snapshot)
			if e.Remark {
				remarks++
			}
		}
		if kept != c.kept || remarks != 1 {
			t.Errorf("%s: kept is %d, and the history has %+v", name, kept, eventsOf(h.journal))
		}
		if h.end.over.Err() != nil {
			t.Errorf("%s: the attempt has ended as %v", name, context.Cause(h.end.over))
		}
	}
}

// TestMaintenance ends the attempt in time for the checkpoint before a host is stopped, by the last notice of the host.
func TestMaintenance(t *testing.T) {
	for name, c := range map[string]struct {
		seconds     []float64
		after, left time.Duration
	}{
		"hours before":    {[]float64{7200}, 2*time.Hour - 3*time.Minute, time.Minute},
		"at once":         {[]float64{60}, 0, leastGrace},
		"put off":         {[]float64{7200, 10800}, 3*time.Hour - 3*time.Minute, time.Minute},
		"brought forward": {[]float64{7200, 3600}, time.Hour - 3*time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				j, err := journal.New(filepath.Join(t.TempDir(), "events"))
				if err != nil {
					t.Fatal(err)
				}
				p := &plan.Plan{Names: []string{"a", "b"}, Checkpoint: &plan.Checkpoint{Grace: time.Minute, Margin: 3 * time.Minute}}
				h, begun := &Head{plan: p, end: newEnding(0), journal: j, hosts: &hosts{plan: p}}, time.Now()
				for _, s := range c.seconds {
					h.Notice(1, peercall.Notice{Kind: peercall.Maintenance, Seconds: s})
				}
				<-h.end.over.Done()
				if after := time.Since(begun); after != c.after || h.end.graceNow() != c.left || !errors.Is(context.Cause(h.end.over), errTakenBack) {
					t.Errorf("after %v with a grace of %v: %v", after, h.end.graceNow(), context.Cause(h.end.over))
				}
			})
		})
	}
}
