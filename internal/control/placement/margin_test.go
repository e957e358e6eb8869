package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
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
		m := LearnMargin(job, spec.Site{Name: "here", Slot: c.slot}, c.earlier, c.stays)
		if m.Total != c.total || m.Grace != c.grace || !strings.Contains(m.Why, c.why) {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m := LearnMargin(&spec.Job{}, spec.Site{Name: "here"}, []state.Attempt{slow}, false); m.Total != 2*spec.LeastMargin {
		t.Errorf("a job without checkpoints: %+v", m)
	}
}

func TestWhatIsLeftOfAnAllocation(t *testing.T) {
	saves, plain := &spec.Job{Checkpoint: &spec.Checkpoint{Grace: time.Minute}}, &spec.Job{}
	for name, c := range map[string]struct {
		job   *spec.Job
		left  time.Duration
		words string // or none
	}{
		"granted again":         {saves, 0, ""},
		"enough":                {saves, 2 * time.Minute, ""},
		"time to save itself":   {saves, 70 * time.Second, "job 7 ends in 1m10s, which leaves no time to compute: the job is asked to save itself 1m10s before it ends (`grace` of 1m0s"},
		"over":                  {saves, 1, "job 7 ends in 0s"},
		"enough for one to end": {plain, 21 * time.Second, ""},
		"not enough for one":    {plain, 20 * time.Second, "job 7 ends in 20s, which leaves no time to compute: the job is ended 20s before"},
	} {
		err := CheckLeft(spec.Site{Name: "here"}, "job 7", driver.Facts{Left: c.left}, FirstMargin(c.job))
		if (err == nil) != (c.words == "") || err != nil && (!strings.Contains(err.Error(), c.words) || core.Remedy(err) == "") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := SlotTime(spec.Site{Slot: time.Hour}, driver.Facts{Left: time.Minute}); got != time.Minute {
		t.Errorf("an allocation that ends before the slot: %s", got)
	}
}
