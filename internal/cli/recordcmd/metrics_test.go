package recordcmd

import (
	"database/sql"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// manyRuns returns the records of so many runs with one attempt each; of an array, if it has an id.
func manyRuns(t *testing.T, n int, array string) *webRecords {
	t.Helper()
	w := webDesk(t)
	sub := submission.Submission{
		Version: submission.Version, Sites: []spec.Site{{Name: "lab", Provider: "local"}, {Name: "cloud", Provider: "aws", Price: spec.Price{Amount: 2, Currency: "USD"}}},
		Job: spec.Job{Name: "md", Image: "docker.io/lab/md:1", Nodes: 2, Env: map[string]string{}, Outputs: []spec.Output{{From: "/work/*", To: "/home/ann/results"}}},
	}
	for i := range 20 {
		sub.Job.Env[fmt.Sprintf("VARIABLE_%d", i)] = "some value of this variable"
	}
	raw, err := sub.Encode()
	if err != nil {
		t.Fatal(err)
	}
	created := time.Now().Add(-time.Hour)
	run := state.Run{ID: "run000000", Name: "md", State: state.Succeeded, Created: created, Ended: created.Add(time.Minute), Submission: raw, Case: state.Case{Array: array, Number: 1}}
	if array != "" {
		run.Case.Name = "sweep"
	}
	attempt := state.Attempt{Run: run.ID, N: 1, Site: "cloud", Provider: "aws", State: state.Closed, Result: state.Exited, Verdict: state.Completed, Started: created.Add(time.Second), Ended: created.Add(time.Minute)}
	attempt.Hosts, attempt.Granted, attempt.Phases = []core.Host{{Name: "h1"}, {Name: "h2"}}, created.Add(2*time.Second), map[core.Phase]time.Duration{core.PhaseAcquire: time.Second, core.PhaseRun: 50 * time.Second}
	if err := w.s.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	if err := w.s.Store.PutAttempt(t.Context(), attempt, false); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(w.s.Store.Dir(), "state.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, copies := range []string{
		`INSERT INTO runs (id, name, state, created, ended, exit_code, kind, message, remedy, image, setup_done, submission, suspended, array_id, array_name, case_number, case_at_once, pack_run)
SELECT printf('run%06d', i), name, state, created+i, ended+i, exit_code, kind, message, remedy, image, setup_done, submission, suspended, array_id, array_name, i+1, case_at_once, pack_run FROM runs, numbers WHERE id='run000000'`,
		`INSERT INTO attempts (run, n, site, provider, lease, state, autostart, result, verdict, started, ended, record)
SELECT printf('run%06d', i), n, site, provider, lease, state, autostart, result, verdict, started+i, ended+i, record FROM attempts, numbers WHERE run='run000000'`,
	} {
		if _, err := db.ExecContext(t.Context(), "WITH RECURSIVE numbers(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM numbers WHERE i<?-1) "+copies, n); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// TestMetricsOfManyRuns: the time for each run is bounded, as its job is not read. The bound is
// in allocations, which depend on no machine.
func TestMetricsOfManyRuns(t *testing.T) {
	n := 2500 // read in more than one part
	if testkit.Everything() {
		n = 10_000
	}
	w := manyRuns(t, n, "")
	var out strings.Builder
	begun := time.Now()
	allocations := testing.AllocsPerRun(1, func() {
		out.Reset()
		if err := w.Metrics(t.Context(), &out); err != nil {
			t.Fatal(err)
		}
	})
	t.Logf("%d runs twice: %v, %.0f allocations for each", n, time.Since(begun), allocations/float64(n))
	if each := allocations / float64(n); each > 90 {
		t.Errorf("%.0f allocations for each run", each)
	}
	for _, want := range []string{
		fmt.Sprintf("bee_runs{state=\"succeeded\"} %d\n", n), fmt.Sprintf("bee_attempts_ended{site=\"cloud\",verdict=\"completed\"} %d\n", n),
		fmt.Sprintf("bee_run_time_seconds{use=\"compute\"} %d\n", 50*n),
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, out.String())
		}
	}
}

// TestCasesArePaged: a look at the cases of an array reads those of one page.
func TestCasesArePaged(t *testing.T) {
	w := manyRuns(t, 2500, "sweepaaa")
	q := url.Values{"array": {"sweepaaa"}, "all": {"1"}}
	read := func() *webRuns {
		v, err := w.Runs(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		return v.(*webRuns)
	}
	if each := testing.AllocsPerRun(1, func() { read() }) / webRunsOfPage; each > 1500 {
		t.Errorf("%.0f allocations for each case of a page", each)
	}
	number := 0
	for list := read(); ; list = read() {
		for _, r := range list.Runs {
			if want := fmt.Sprintf("run%06d", number); r.ID != want {
				t.Fatalf("%s comes in place of %s", r.ID, want)
			}
			number++
		}
		if q.Set("until", list.Next); list.Next == "" {
			break
		}
	}
	if number != 2500 {
		t.Errorf("%d cases", number)
	}
	q = url.Values{"array": {"sweep"}, "all": {"1"}, "until": {"2400"}}
	if list := read(); len(list.Runs) != webRunsOfPage || list.Runs[0].ID != "run002400" {
		t.Errorf("a later page of an array by its name has %d cases", len(list.Runs))
	}
}
