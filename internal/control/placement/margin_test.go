package placement

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

func TestTheMarginIsLearned(t *testing.T) {
	took := func(site string, saving, bringing time.Duration) state.Attempt {
		return state.Attempt{Site: site, Record: state.Record{Saving: saving, Bringing: bringing}}
	}
	slow := took("here", 40*time.Second, 100*time.Second)
	var reasons strings.Builder
	for _, c := range []struct {
		name         string
		earlier      []state.Attempt
		slot         time.Duration
		stays        bool
		total, grace time.Duration
	}{
		{"nothing is known", nil, time.Hour, false, 70 * time.Second, time.Minute},
		{"one was quick", []state.Attempt{took("here", time.Second, time.Second)}, time.Hour, false, 70 * time.Second, time.Minute},
		{"one was slow", []state.Attempt{slow}, time.Hour, false, 210 * time.Second, time.Minute},
		{"the way home is not needed", []state.Attempt{slow}, time.Hour, true, 70 * time.Second, time.Minute},
		{"the job itself is slow", []state.Attempt{took("here", 58*time.Second, 0)}, time.Hour, true, 87 * time.Second, 87 * time.Second},
		{"elsewhere it was slow", []state.Attempt{took("there", 0, 100*time.Second)}, time.Hour, false, 150 * time.Second, time.Minute},
		{"but not here", []state.Attempt{took("there", 0, 100*time.Second), took("here", 0, 50*time.Second)}, time.Hour, false, 75 * time.Second, time.Minute},
		{"long ago", []state.Attempt{slow, took("here", 1, 0), took("here", 1, 0), took("here", 1, 0)}, time.Hour, false, 70 * time.Second, time.Minute},
		{"a short slot", []state.Attempt{slow}, 6 * time.Minute, false, 3 * time.Minute, time.Minute},
		{"a slot shorter than that", []state.Attempt{slow}, 2 * time.Minute, false, 70 * time.Second, time.Minute},
		{"no slot", []state.Attempt{slow}, 0, false, 210 * time.Second, time.Minute},
	} {
		job := &spec.Job{Checkpoint: &spec.Checkpoint{Grace: time.Minute}}
		m := LearnMargin(job, spec.Site{Name: "here", Slot: c.slot}, c.earlier, c.stays)
		if m.Total != c.total || m.Grace != c.grace {
			t.Errorf("%s: %+v", c.name, m)
		}
		reasons.WriteString(c.name + ": " + m.Why + "\n")
	}
	testkit.Golden(t, "margin", reasons.String())
	if m := LearnMargin(&spec.Job{}, spec.Site{Name: "here"}, []state.Attempt{slow}, false); m.Total != 2*spec.LeastMargin {
		t.Errorf("a job without checkpoints: %+v", m)
	}
}

func TestWhatIsLeftOfAnAllocation(t *testing.T) {
	saves, plain := &spec.Job{Checkpoint: &spec.Checkpoint{Grace: time.Minute}}, &spec.Job{}
	var refused testkit.ErrorList
	for _, c := range []struct {
		name string
		job  *spec.Job
		left time.Duration
		fits bool
	}{
		{"granted again", saves, 0, true},
		{"enough", saves, 2 * time.Minute, true},
		{"time to save itself", saves, 70 * time.Second, false},
		{"over", saves, 1, false},
		{"enough for one to end", plain, 21 * time.Second, true},
		{"not enough for one", plain, 20 * time.Second, false},
	} {
		err := CheckLeft(spec.Site{Name: "here"}, "job 7", driver.Facts{Left: c.left}, FirstMargin(c.job))
		if (err == nil) != c.fits || err != nil && core.Remedy(err) == "" {
			t.Errorf("%s: %v", c.name, err)
		}
		refused.Add(c.name, err)
	}
	refused.Compare(t, "left")
	if got := SlotTime(spec.Site{Slot: time.Hour}, driver.Facts{Left: time.Minute}); got != time.Minute {
		t.Errorf("an allocation that ends before the slot: %s", got)
	}
}
