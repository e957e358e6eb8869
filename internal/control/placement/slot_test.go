package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestAfford: a slot ends before the run has cost more than it may.
func TestAfford(t *testing.T) {
	job := &spec.Job{Nodes: 2}
	for name, c := range map[string]struct {
		max, spent float64
		slot, boot time.Duration
		want       time.Duration // 0: it is refused
	}{
		"no limit":                  {0, 100, 2 * time.Hour, 0, 2 * time.Hour},
		"more than the slot":        {50, 0, 2 * time.Hour, 0, 2 * time.Hour},
		"less than the slot":        {6, 0, 2 * time.Hour, 0, time.Hour - releaseTime},
		"machines cost from before": {6, 0, 2 * time.Hour, 5 * time.Minute, 55*time.Minute - releaseTime},
		"without a slot":            {6, 3, 0, 0, 30*time.Minute - releaseTime},
		"used up":                   {6, 5.99, 2 * time.Hour, 0, 0},
		"more than used up":         {6, 7, 2 * time.Hour, 0, 0},
		"used up beyond all time":   {6, 1e300, 2 * time.Hour, 0, 0},
		"a limit beyond all time":   {1e300, 0, 2 * time.Hour, 0, 2 * time.Hour},
	} {
		site := spec.Site{Name: "s", Price: spec.Price{Amount: 2, Most: 3}, MaxCost: c.max, Slot: c.slot}
		got, err := Afford(site, job, c.spent, core.Billing{Boot: c.boot})
		if c.want == 0 {
			if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || got.Slot != c.want {
			t.Errorf("%s: a slot of %s, %v", name, got.Slot, err)
		}
	}
	asked := spec.Site{Name: "s", AWS: &spec.AWS{AskPrice: true}, MaxCost: 6}
	if _, err := Afford(asked, job, 0, core.Billing{}); !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "price:") {
		t.Errorf("without a price: %v", err)
	}
	if got, err := Afford(spec.Site{Name: "s", MaxCost: 6}, job, 0, core.Billing{}); err != nil || got.Slot != 0 {
		t.Errorf("of a site that costs nothing: %+v, %v", got, err)
	}
}
