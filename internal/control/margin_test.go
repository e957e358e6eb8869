package control

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

func TestTheMarginIsLearned(t *testing.T) {
	took := func(site string, saving, bringing time.Duration) state.Attempt {
		return state.Attempt{Site: site, Record: state.Record{Saving: saving, Bringing: bringing}}
	}
	slow := took("here", 40*time.Second, 100*time.Second)
	for name, c := range map[string]struct {
		earlier      []state.Attempt
		slot         time.Duration
		stays        bool
		total, grace time.Duration
		why          string
	}{
		"nothing is known":           {nil, time.Hour, false, 70 * time.Second, time.Minute, "`grace` of 1m0s"},
		"one was quick":              {[]state.Attempt{took("here", time.Second, time.Second)}, time.Hour, false, 70 * time.Second, time.Minute, "`grace` of 1m0s"},
		"one was slow":               {[]state.Attempt{slow}, time.Hour, false, 210 * time.Second, time.Minute, "took 2m20s, and half as much again"},
		"the way home is not needed": {[]state.Attempt{slow}, time.Hour, true, 70 * time.Second, time.Minute, "`grace`"},
		"the job itself is slow":     {[]state.Attempt{took("here", 58*time.Second, 0)}, time.Hour, true, 87 * time.Second, 87 * time.Second, "took 58s"},
		"elsewhere it was slow":      {[]state.Attempt{took("there", 0, 100*time.Second)}, time.Hour, false, 150 * time.Second, time.Minute, "took 1m40s"},
		"but not here":               {[]state.Attempt{took("there", 0, 100*time.Second), took("here", 0, 50*time.Second)}, time.Hour, false, 75 * time.Second, time.Minute, "took 50s"},
		"long ago":                   {[]state.Attempt{slow, took("here", 1, 0), took("here", 1, 0), took("here", 1, 0)}, time.Hour, false, 70 * time.Second, time.Minute, "`grace`"},
		"a short slot":               {[]state.Attempt{slow}, 6 * time.Minute, false, 3 * time.Minute, time.Minute, "no more than half"},
		"a slot shorter than that":   {[]state.Attempt{slow}, 2 * time.Minute, false, 70 * time.Second, time.Minute, "no more than half"},
		"no slot":                    {[]state.Attempt{slow}, 0, false, 210 * time.Second, time.Minute, "took 2m20s"},
	} {
		job := &spec.Job{Checkpoint: &spec.Checkpoint{Grace: time.Minute}}
		m := learnMargin(job, spec.Site{Name: "here", Slot: c.slot}, c.earlier, c.stays)
		if m.total != c.total || m.grace != c.grace || !strings.Contains(m.why, c.why) {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m := learnMargin(&spec.Job{}, spec.Site{Name: "here"}, []state.Attempt{slow}, false); m.total != 2*defaultGrace {
		t.Errorf("a job without checkpoints: %+v", m)
	}
}
