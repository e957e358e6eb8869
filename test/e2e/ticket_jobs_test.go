package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bee-hpc/bee/internal/testkit"
)

// pipelineWithTicket are a mesh, an array that takes it and a file of the machine, a plot, and a job
// for a failure that does not happen.
const pipelineWithTicket = `name: mesh
image: docker-archive:./app.tar
run: until [ -e /work/go ]; do sleep 0.1; done; echo mesh >mesh
outputs: [{from: mesh, to: ./results}]
---
name: model
image: docker-archive:./app.tar
after: [mesh]
array: {cases: {n: [1, 2]}, at_once: 1}
inputs: [{from: ./results/mesh, to: /work}, {from: ./own.dat, to: /work}]
run: echo ${case.n} of $(cat mesh) and $(cat own.dat) >out
outputs: [{from: out, to: "./results/${case.n}"}]
---
name: plot
image: docker-archive:./app.tar
after: [model]
inputs: [{from: ./results, to: /work/results}]
run: cat results/*/out; cat results/*/out >plot
outputs: [{from: plot, to: ./results}]
---
name: mourn
image: docker-archive:./app.tar
after: [{run: mesh, on: failure}]
run: echo it failed
`

// TestTicketOfSeveralJobs moves a pipeline between machines with empty homes while its first job
// computes. The machine that adopts the ticket begins the others, and no other one does.
func TestTicketOfSeveralJobs(t *testing.T) {
	t.Parallel()
	first, farm, _ := rack(t, 2)
	archive, err := os.ReadFile(testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}}))
	if err != nil {
		t.Fatal(err)
	}
	first.File("app.tar", string(archive))
	first.File("own.dat", "own\n")
	jobs := first.File("jobs.yaml", pipelineWithTicket)
	const key = "BEE_TICKET_KEY=ab40cd1e86f52c4d5a1b"
	first.Env = append(first.Env, key)
	ticket := filepath.Join(first.Work, "jobs.ticket")
	ids := strings.Fields(first.Must("run", "-q", "-d", "--ticket", ticket, jobs))
	if len(ids) != 4 {
		t.Fatalf("got %q", ids)
	}
	for name, row := range jobsOf(first) {
		if row.State != "suspended" || (len(row.Attempts) > 0) != (name == "mesh") {
			t.Errorf("where it was submitted, %s is %+v", name, row)
		}
	}
	if f := first.Fail("resume", "plot"); f.Kind != "invalid" || f.Remedy == "" {
		t.Errorf("a job that had not begun: %+v", f)
	}
	fresh := func() *testkit.Bee {
		b := testkit.NewBee(t)
		b.Env = append(append(b.Env, farm.Env()...), "BEE_SITES="+b.File("sites.yaml", first.Read("sites.yaml")), key)
		b.File("app.tar", string(archive))
		return b
	}
	second, third := fresh(), fresh()
	if f := second.Fail("wait", "--ticket", ticket); f.Kind != "not found" || !strings.Contains(f.Message, "own.dat") || f.Remedy == "" {
		t.Errorf("without a file that is needed: %+v", f)
	}
	second.File("own.dat", "own\n")
	third.File("own.dat", "own\n")
	second.Must("resume", "--ticket", ticket)
	if f := third.Fail("wait", "--ticket", ticket); f.Kind != "busy" || f.Remedy == "" {
		t.Errorf("the machine that came second: %+v", f)
	}
	if out := third.Must("ps", "-aq"); out != "" {
		t.Errorf("the machine that came second has records: %q", out)
	}
	first.Must(append([]string{"stop"}, ids...)...) // gives them up
	second.Must("exec", "mesh", "--", "touch", "/work/go")
	r := second.Try("wait", "-f", "--ticket", ticket, "--junit", "junit.xml")
	if r.Code != 0 || !strings.Contains(r.Stdout, "1 of mesh and own\n") {
		t.Errorf("the wait ended with %+v", r)
	}
	if got, want := second.Read("results/plot"), "1 of mesh and own\n2 of mesh and own\n"; got != want {
		t.Errorf("the plot is %q", got)
	}
	if got := second.Read("junit.xml"); !strings.Contains(got, `tests="4" failures="0" errors="0"`) {
		t.Errorf("the tests are\n%s", got)
	}
	if rows := jobsOf(second); len(rows["mourn"].Attempts) > 0 || rows["mourn"].State != "failed" || len(rows["model.2"].Attempts) != 1 {
		t.Errorf("the runs are %+v", rows)
	}
	for name, row := range jobsOf(first) {
		if row.State != "stopped" {
			t.Errorf("where it was submitted, %s is %+v", name, row)
		}
	}
	left(t, farm)
}
