package report

import (
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestMetrics: of a run that moved and is queued now, and of names that are no plain text.
func TestMetrics(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := NewMetrics("1.2", []string{"rack"}, begun.Add(time.Hour))
	run := state.Run{ID: "a", State: state.Queued, Created: begun}
	m.Add(run, []state.Attempt{
		{Site: "rack", State: state.Closed, Verdict: state.Continues, Started: begun, Ended: begun.Add(30 * time.Minute), Record: state.Record{
			Granted: begun, Hosts: []core.Host{{}}, Nodes: []core.NodeReport{{}}, Phases: map[core.Phase]time.Duration{core.PhaseRun: 29 * time.Minute, core.PhaseQueue: time.Minute},
		}},
		{Site: "a\"\\\nname\xff", State: state.InQueue, Started: begun.Add(30 * time.Minute)},
	}, func(site string) state.Price { return map[string]state.Price{"rack": {Hour: 2}}[site] })
	var b strings.Builder
	if _, err := m.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# TYPE bee_run_time_seconds gauge\n# UNIT bee_run_time_seconds seconds\n# HELP bee_run_time_seconds ",
		"bee_build_info{version=\"1.2\"} 1\n", "bee_runs{state=\"queued\"} 1\n", "bee_runs{state=\"failed\"} 0\n",
		"bee_attempts{site=\"rack\",state=\"queued\"} 0\n", "bee_attempts{site=\"a\\\"\\\\\\nname\uFFFD\",state=\"queued\"} 1\n",
		"bee_attempts_ended{site=\"rack\",verdict=\"checkpointed\"} 1\n",
		"bee_run_time_seconds{use=\"compute\"} 1740\n", "bee_run_time_seconds{use=\"current\"} 1800\n", "bee_run_time_seconds{use=\"lost\"} 0\n",
		"bee_attempt_time_seconds{site=\"rack\",use=\"queue\"} 60\n", "bee_cost{site=\"rack\",currency=\"\"} ",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("there is no %q", want)
		}
	}
	if !strings.HasSuffix(b.String(), "\n# EOF\n") || t.Failed() {
		t.Errorf("in all:\n%s", b.String())
	}
}

// TestTimeOfPackedCases is that of their pack, and counted once.
func TestTimeOfPackedCases(t *testing.T) {
	now := time.Now()
	r := state.Run{State: state.Running, Created: now.Add(-time.Hour)}
	if got := Spent(r, nil, now); len(got) == 0 {
		t.Error("a run without attempts has waited")
	}
	r.Case.Pack = "aaaa1111"
	if got := Spent(r, nil, now); len(got) > 0 {
		t.Errorf("it has spent %v", got)
	}
}
