package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// jobRow is a run as `bee ps --json` has it.
type jobRow struct {
	ID, Name, State string
	Error           struct{ Message string }
	ExitCode        *int `json:"exit_code"`
	Attempts        []struct{}
}

// jobsOf returns all runs by name, with the cases of arrays.
func jobsOf(b *testkit.Bee) map[string]jobRow {
	var all []jobRow
	b.JSON(&all, "ps", "--all", "--cases", "--json")
	rows := map[string]jobRow{}
	for _, r := range all {
		rows[r.Name] = r
	}
	return rows
}

// TestJobsOfOneFile: a mesh, two solvers and an array beside each other, and what collects their
// files, in the order of what they wait for. A job for a failure that does not happen never begins.
func TestJobsOfOneFile(t *testing.T) {
	b := testkit.NewBee(t)
	b.Oversubscribe()
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("jobs.yaml", `name: collect
image: `+image+`
after: [left, {run: right}, study]
inputs: [{from: ./results/*, to: /work}]
run: cat left right study.1 study.2
---
name: mesh
image: `+image+`
run: echo mesh > mesh
outputs: [{from: mesh, to: ./results}]
---
name: left
image: `+image+`
after: [mesh]
inputs: [{from: ./results/mesh, to: /work}]
run: echo computes; until [ -e go ]; do sleep 0.1; done; echo left of $(cat mesh) > left
outputs: [{from: left, to: ./results}]
---
name: right
image: `+image+`
after: [mesh]
inputs: [{from: ./results/mesh, to: /work}]
run: echo computes; until [ -e go ]; do sleep 0.1; done; echo right of $(cat mesh) > right
outputs: [{from: right, to: ./results}]
---
name: study
image: `+image+`
after: [mesh]
array: {cases: {s: [1, 2]}}
run: echo case > study.${case.s}
outputs: [{from: "study.${case.s}", to: ./results}]
---
name: mourn
image: `+image+`
after: [{run: collect, on: failure}]
run: echo it failed
`)
	if r := b.Try("check", "jobs.yaml"); r.Code != 0 || strings.Count(r.Stdout, "\n") != 6 {
		t.Errorf("got %+v", r)
	}
	if plan := b.Must("plan", "jobs.yaml"); strings.Index(plan, "mesh") < strings.Index(plan, "collect") || !strings.Contains(plan, "study") {
		t.Errorf("not each job is planned:\n%s", plan)
	}
	c := b.Command("run", "--junit", "junit.xml", "jobs.yaml")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 2*time.Minute, func() error { // each solver waits until both compute
		for _, name := range []string{"left", "right"} {
			if r := b.Try("logs", name); r.Stdout != "computes\n" {
				return fmt.Errorf("%s printed %s%s", name, r.Stdout, r.Stderr)
			}
		}
		return nil
	})
	for _, name := range []string{"left", "right"} {
		b.Touch(name, "/work/go")
	}
	err := c.Wait()
	lines := strings.Split(out.String(), "\n")
	if want := []string{"collect | left of mesh", "collect | right of mesh", "collect | case", "collect | case"}; err != nil || !containsRow(lines, want) {
		t.Fatalf("%v: got %s%s", err, out.String(), errs.String())
	}
	jobs := jobsOf(b)
	for name, state := range map[string]string{"mesh": "succeeded", "left": "succeeded", "right": "succeeded", "study.1": "succeeded", "study.2": "succeeded", "collect": "succeeded", "mourn": "failed"} {
		if jobs[name].State != state {
			t.Errorf("%s is %q, want %q", name, jobs[name].State, state)
		}
	}
	if m := jobs["mourn"]; len(m.Attempts) > 0 || !strings.Contains(m.Error.Message, jobs["collect"].ID) {
		t.Errorf("a run that never begins is %+v", m)
	}
	var all []string
	for _, job := range jobs {
		all = append(all, job.ID)
	}
	if r := b.Try(append([]string{"wait", "--junit", "waited.xml"}, all...)...); r.Code != 0 {
		t.Errorf("got %+v", r)
	}
	for _, file := range []string{"junit.xml", "waited.xml"} {
		if junit := b.Read(file); strings.Count(junit, "<testcase") != 6 || strings.Contains(junit, "<failure") || strings.Contains(junit, "<error") {
			t.Errorf("%s: got %s", file, junit)
		}
	}
	if r := b.Try("wait", jobs["mourn"].ID); r.Code == 0 {
		t.Errorf("got %+v", r)
	}
	if r := b.Try("rm", "mesh"); r.Code != 0 {
		t.Errorf("got %+v", r)
	}
}

// containsRow reports whether lines follow each other.
func containsRow(lines, want []string) bool {
	for i := 0; i+len(want) <= len(lines); i++ {
		if slices.Equal(lines[i:i+len(want)], want) {
			return true
		}
	}
	return false
}

// TestJobsAfterAFailure, when the command that has submitted them was killed: they end as they
// would have.
func TestJobsAfterAFailure(t *testing.T) {
	b := testkit.NewBee(t)
	b.Oversubscribe()
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	text := ""
	for _, job := range []string{
		"name: prep\nrun: sleep 1; exit 3\n",
		"name: solve\nafter: [prep]\nrun: 'true'\n",
		"name: plot\nafter: [solve]\nrun: 'true'\n",
		"name: clean\nafter: [{run: prep, on: failure}, {run: plot, on: end}]\nrun: echo clean\n",
	} {
		text += "---\nimage: " + image + "\n" + job
	}
	b.File("jobs.yaml", text)
	for _, seen := range []func() error{ // when the command is killed
		func() error { _, err := os.Stat(filepath.Join(b.Dir, "state", "state.db")); return err },
		func() error {
			if n := len(jobsOf(b)); n != 4 {
				return fmt.Errorf("%d jobs are on record", n)
			}
			return nil
		},
	} {
		c := b.Command("run", "jobs.yaml")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		testkit.Eventually(t, 20*time.Second, seen)
		c.Process.Kill()
		if err := c.Wait(); err == nil {
			t.Error("it was not killed")
		}
		switch jobs := jobsOf(b); len(jobs) {
		case 0: // none is submitted
		case 4:
			b.Must("supervise")
			if r := b.Try("wait", jobs["prep"].ID, jobs["solve"].ID, jobs["plot"].ID, jobs["clean"].ID); r.Code != 3 {
				t.Errorf("got %+v", r)
			}
			jobs = jobsOf(b)
			if code := jobs["prep"].ExitCode; code == nil || *code != 3 {
				t.Errorf("the first job is %+v", jobs["prep"])
			}
			for name, waited := range map[string]string{"solve": "prep", "plot": "solve"} {
				if j := jobs[name]; j.State != "failed" || len(j.Attempts) > 0 || !strings.Contains(j.Error.Message, jobs[waited].ID) {
					t.Errorf("%s is %+v", name, j)
				}
			}
			if out := b.Must("logs", jobs["clean"].ID); out != "clean\n" {
				t.Errorf("got %q", out)
			}
			b.Must("rm", jobs["clean"].ID, jobs["plot"].ID, jobs["solve"].ID, jobs["prep"].ID)
		default:
			t.Fatalf("%d of 4 jobs are on record", len(jobs))
		}
	}
	r := b.Try("run", "-q", "jobs.yaml")
	if r.Code != 3 || r.Stdout != "clean | clean\n" {
		t.Errorf("got %+v", r)
	}
}

// TestJobsThatAreInterrupted stop, those that run and those that wait for them.
func TestJobsThatAreInterrupted(t *testing.T) {
	b := testkit.NewBee(t)
	image := "docker-archive:" + testkit.Busybox(t, v1.Config{Env: []string{"PATH=/bin:/usr/bin"}})
	b.File("jobs.yaml", "name: first\nimage: "+image+"\nrun: echo begun; exec sleep 1000\n---\nname: last\nimage: "+image+"\nafter: [{run: first, on: end}]\nrun: 'true'\n")
	c := b.Command("run", "jobs.yaml")
	var out, errs bytes.Buffer
	c.Stdout, c.Stderr = &out, &errs
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		if r := b.Try("logs", "first"); r.Stdout != "begun\n" {
			return errors.New("it printed " + r.Stdout + r.Stderr)
		}
		return nil
	})
	if err := c.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(); err == nil || c.ProcessState.ExitCode() != 207 {
		t.Errorf("%v: %s", err, errs.String())
	}
	for name, job := range jobsOf(b) {
		if job.State != "stopped" {
			t.Errorf("%s is %s", name, job.State)
		}
	}
	if out.String() != "first | begun\n" {
		t.Errorf("got %q", out.String())
	}
}

// TestJobsThatCannotBe are refused with the place in the file, and none of the file is submitted.
func TestJobsThatCannotBe(t *testing.T) {
	b := testkit.NewBee(t)
	b.File("circle.yaml", "name: a\nimage: x\nafter: [c]\n---\nname: b\nimage: x\nafter: [a]\n---\nname: c\nimage: x\nafter: [b]\n")
	b.File("unknown.yaml", "name: mesh\nimage: x\n---\nname: plot\nimage: x\nafter:\n- mesh\n- mehs\n- {run: gone, on: end}\n")
	b.File("several.yaml", "name: a\nimage: x\nnode: 2\n---\nimage: x\n---\nname: a\nimage: y z\n")
	b.File("same.yaml", "name: a\nimage: x\noutputs: [{from: o, to: .}]\n---\nname: b\nimage: x\noutputs: [{from: o, to: .}]\n")
	b.File("good.yaml", "name: a\nimage: x\n---\nname: b\nimage: x\nafter: [a]\n")
	type problem struct{ Line, Column int }
	for file, want := range map[string][]problem{
		"circle.yaml": {{7, 9}}, "unknown.yaml": {{8, 3}, {9, 3}}, "several.yaml": {{3, 1}, {5, 1}, {7, 7}, {8, 8}}, "same.yaml": {{7, 25}},
	} {
		r := b.Try("run", "--json", file)
		var got struct{ Problems []problem }
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || r.Code != 201 || !slices.Equal(got.Problems, want) {
			t.Errorf("%s: %v: %+v", file, err, r)
		}
	}
	for _, flag := range []string{"--name=x", "--cases=1", "-i", "--explain"} {
		if r := b.Try("run", "-d", flag, "good.yaml"); r.Code == 0 || len(r.Stdout) > 0 {
			t.Errorf("%s: %+v", flag, r)
		}
	}
	if left := jobsOf(b); len(left) > 0 {
		t.Errorf("on record are %+v", left)
	}
}
