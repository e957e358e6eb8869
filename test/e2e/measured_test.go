package e2e

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// TestProgressOfAFileOfTheJob: the file is read while the job runs, and once more when the job has ended.
func TestProgressOfAFileOfTheJob(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "progress: {file: progress}", "run: echo 30 40 >progress; until [ -e go ]; do sleep 0.1; done; echo 39 40 >new; mv new progress")
	id := strings.TrimSpace(b.Must("run", "-d", job))
	reaches := func(done float64, state string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			var v struct {
				State    string
				Progress *struct{ Done, Total float64 } `json:"job_progress"`
			}
			if b.JSON(&v, "show", "--json", id); v.Progress == nil || v.Progress.Done != done || v.Progress.Total != 40 || v.State != state {
				return b.Explained(id, fmt.Sprintf("it has %+v, expected %v of 40", v, done))
			}
			return nil
		})
	}
	reaches(30, "running")
	b.Touch(id, "/work/go")
	reaches(39, "succeeded")
}

// TestProgressAndMetricsOfARunThatMoves: a job's numbers are recorded while it runs, and
// those of its next attempt follow on the same curve, also of controllers that are killed. Lines without an end, and what are no
// numbers, change nothing.
func TestProgressAndMetricsOfARunThatMoves(t *testing.T) {
	t.Parallel()
	b, job := busyboxJob(t, "workdir: /work", "checkpoint: {grace: 30s, file: /work/STOP, paths: [/work/state]}", `progress: {match: 'step (\d+) of (\d+)'}`, `metrics: {energy: 'Etot = (\S+)', never: 'x(y)z'}`, `run: |
  n=$(cat state 2>/dev/null || echo 0); from=$n
  while [ $n -lt $((from+10)) ]; do n=$((n+1)); echo "step $n of 20"; echo "Etot = -$n.5" >&2; done
  echo "Etot = NaN"; echo "Etot = 1e999"; echo "step many of 20"; yes 'step 5 of 20' | head -n 100000 | tr -d '\n'
  [ $n = 20 ] && exit 0
  until [ -e STOP ]; do sleep 0.1; done
  echo $n > state`)
	sites := b.File("sites.yaml", "sites:\n  - {name: one, provider: local}\n  - {name: two, provider: local}\n")
	id := strings.TrimSpace(b.Must("--sites", sites, "run", "-d", job))
	type view struct {
		State    string
		Progress *struct{ Done, Total, Percent float64 } `json:"job_progress"`
		Metrics  map[string]struct{ Value float64 }
		Attempts []struct{ Site string }
	}
	reaches := func(done, percent float64, states string) {
		t.Helper()
		testkit.Eventually(t, time.Minute, func() error {
			var v view
			b.JSON(&v, "show", "--json", id)
			if p := v.Progress; p == nil || p.Done != done || p.Total != 20 || p.Percent != percent || v.Metrics["energy"].Value != -done-0.5 || len(v.Metrics) != 1 || v.State != states {
				return b.Explained(id, fmt.Sprintf("it has %+v, expected step %v", v, done))
			}
			return nil
		})
	}
	reaches(10, 50, "running")
	if list := b.Must("ps"); !strings.Contains(list, "50 %") {
		t.Errorf("bee ps: %s", list)
	}
	for _, pid := range b.Controllers() { // controllers: the job continues, and its numbers are recorded once
		testkit.Kill(pid)
	}
	b.Must("supervise")
	b.Must("--sites", sites, "move", "--site", "two", id)
	if v := b.Await(id, time.Minute); v.State != "succeeded" || len(v.Attempts) != 2 {
		t.Fatalf("the run: %+v\n%s", v, b.Must("show", id))
	}
	reaches(20, 100, "succeeded")
	points, err := csv.NewReader(strings.NewReader(b.Must("metrics", "--csv", id))).ReadAll()
	all := fmt.Sprint(points)
	if err != nil || !strings.Contains(all, " -10.5]") || !strings.HasSuffix(all, " -20.5]]") || !strings.Contains(all, " 50]") {
		t.Errorf("bee metrics --csv: %v\n%s", err, all)
	}
	if page := b.Must("report", id); strings.Count(page, "<h2><bdi>") != 2 {
		t.Errorf("the report has not both curves of the job:\n%s", page)
	}
	if f := b.Fail("metrics", "--json"); f.Kind != "invalid" {
		t.Errorf("--json without a run: %+v", f)
	}
}
