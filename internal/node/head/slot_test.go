package head

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/plan"
)

// TestASlotThatMoves: as much later as the site takes its hosts back, also where the user
// grants less than the site.
func TestASlotThatMoves(t *testing.T) {
	now := time.Now()
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for name, c := range map[string]struct {
		first *slot
		site  []time.Duration // what it is reported
		ends  time.Duration
	}{
		"the site's own end":       {&slot{site: at(time.Hour), ends: at(time.Hour)}, []time.Duration{3 * time.Hour}, 3 * time.Hour},
		"the user's before it":     {&slot{site: at(2 * time.Hour), ends: at(time.Hour)}, []time.Duration{5 * time.Hour}, 4 * time.Hour},
		"told twice, and again":    {&slot{site: at(time.Hour), ends: at(time.Hour)}, []time.Duration{3 * time.Hour, 3 * time.Hour, 4 * time.Hour}, 4 * time.Hour},
		"earlier does not count":   {&slot{site: at(time.Hour), ends: at(time.Hour)}, []time.Duration{time.Minute}, time.Hour},
		"a site that said nothing": {&slot{ends: at(time.Hour)}, []time.Duration{3 * time.Hour}, time.Hour},
	} {
		for _, d := range c.site {
			c.first.extend(at(d))
		}
		if !c.first.ends.Equal(at(c.ends)) {
			t.Errorf("%s: it ends after %v", name, c.first.ends.Sub(now))
		}
	}
}

// TestTheEndOfASlot comes as long before as it takes to save the job, and later where it
// moves meanwhile.
func TestTheEndOfASlot(t *testing.T) {
	for name, c := range map[string]struct{ reported, want time.Duration }{
		"as it was":  {0, 50 * time.Minute},
		"half later": {90 * time.Minute, 80 * time.Minute},
	} {
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			h := &Head{notices: make(chan os.Signal), plan: &plan.Plan{}, end: newEnding(0), slot: slot{site: begun.Add(time.Hour), ends: begun.Add(time.Hour)}}
			if c.reported > 0 {
				time.AfterFunc(40*time.Minute, func() { h.slot.extend(begun.Add(c.reported)) })
			}
			h.endBefore(h.end.over, 10*time.Minute, time.Minute)
			if after := time.Since(begun).Round(time.Second); after != c.want || !errors.Is(context.Cause(h.end.over), errSlotEnds) || h.end.graceNow() != time.Minute {
				t.Errorf("%s: after %v, %v", name, after, context.Cause(h.end.over))
			}
		})
	}
}
