package spec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// finishAll finishes the jobs of a text, and returns all problems together.
func finishAll(text string) (jobs []*Job, drafts []*Draft, err error) {
	drafts = DraftsOf("jobs.yaml", []byte(text), "/home/ann")
	for _, d := range drafts {
		j, jerr := d.Finish()
		jobs, err = append(jobs, j), Both(err, jerr)
	}
	return jobs, drafts, err
}

// TestSeveralJobs of one file: each has keys and anchors of its own, and those before which
// others begin are found by their names.
func TestSeveralJobs(t *testing.T) {
	jobs, drafts, err := finishAll(`# a pipeline
---
name: mesh
image: &i one
run: x
---

---
name: study
image: two
array: {cases: {s: [1, 2]}}
after: [mesh, {run: other, on: end}]
run: echo ${case.s}
---
name: plot
image: three
after: [study, {run: mesh, on: end}]
inputs: [{from: ./results/*, to: /work}]
...
---
{name: clean, image: four, after: [{run: plot, on: failure}]}
---
`)
	if err != nil || len(jobs) != 4 {
		t.Fatalf("%v: %d jobs", err, len(jobs))
	}
	for i, want := range []struct {
		name, image string
		links       []Link
		cases       int
	}{
		{"mesh", "one", nil, 0}, {"study", "two", []Link{{0, 0}}, 2}, {"plot", "three", []Link{{0, 1}, {1, 0}}, 0}, {"clean", "four", []Link{{0, 2}}, 0},
	} {
		if j := jobs[i]; j.Name != want.name || j.Image != want.image || j.Dir != "/home/ann" || !reflect.DeepEqual(drafts[i].Links(), want.links) || len(drafts[i].Cases()) != want.cases {
			t.Errorf("job %d: %q of %q in %q with %v, %d cases", i, j.Name, j.Image, j.Dir, drafts[i].Links(), len(drafts[i].Cases()))
		}
	}
	if one, err := drafts[1].Case(2).Finish(); err != nil || one.Name != "study.2" || one.Run.Shell != "echo 2" || len(one.After) != 2 {
		t.Errorf("%v: the case is %+v", err, one)
	}
	alone := DraftsOf("dir/one.yaml", []byte("image: one\n---\n"), "/")
	if j, err := alone[0].Finish(); err != nil || len(alone) != 1 || j.Name != "one" {
		t.Errorf("%v: a file of one job has %d: %+v", err, len(alone), j)
	}
}

// TestEmptyDocuments are no jobs, and hide none.
func TestEmptyDocuments(t *testing.T) {
	const one, two = "name: one\nimage: a\n", "name: two\nimage: a\n"
	for _, text := range []string{
		one + "---\n---\n" + two, "---\n---\n" + one + "---\n" + two, one + "---\n# name: old\n# image: a\n---\n" + two, one + "---\n" + two + "---\n---\n",
		one + "---\n\n\n---\n# a\n---\n" + two + "# b\n---\n# c\n", one + "...\n---\n" + two + "...\n", one + "---\n...\n---\n" + two, one + "...\n" + two, "# a\n" + one + "--- # b\n" + two,
		"%YAML 1.2\n---\n" + one + "...\n%YAML 1.2\n---\n" + two, one + "---\nnull\n---\n" + two, one + "---\n~\n---\n" + two, "---\r\n" + one + "---\r\n---\r\n" + two,
	} {
		jobs, _, err := finishAll(text)
		if err != nil || len(jobs) != 2 || jobs[0].Name != "one" || jobs[1].Name != "two" {
			t.Errorf("%q: %d jobs, %v", text, len(jobs), err)
		}
	}
}

// TestSeveralJobsThatCannotBe: all problems of all jobs are found at once, each at its place.
func TestSeveralJobsThatCannotBe(t *testing.T) {
	var found testkit.ErrorList
	job := func(name, rest string) string { return "---\nname: " + name + "\nimage: a\n" + rest }
	for _, c := range []struct{ what, text string }{
		{"problems of all jobs", job("one", "node: 2\n") + job("two", "run: [x]\nnodes: 0\n") + "---\nname: three\nrun: x\n"},
		{"no names", "image: a\n---\nimage: b\n---\nname: ''\nimage: c\n"},
		{"equal names", job("mesh", "") + job("'mesh'", "after: [mesh]\n")},
		{"itself", job("a", "after: [b]\n") + job("b", "after: [a, b]\n")},
		{"a circle of three", job("a", "after: [c]\n") + job("b", "after: [{run: a, on: end}]\n") + job("c", "run: x\nafter:\n- old\n- run: b\n  on: failure\n")},
		{"circles", job("a", "after: [b, c]\n") + job("b", "after: [a]\n") + job("c", "after: [a]\n") + job("d", "after: [a]\n")},
		{"an anchor of another job", "name: a\nimage: &i x\n---\nname: b\nimage: *i\n"},
		{"a case of an array", job("s", "array: {cases: {i: [1, 2]}, pack: 2}\nrun: echo ${case.i}\n") + job("b", "after: [s.2, s.packs, s.packs.1, s.old]\n")},
		{"no mapping", job("a", "") + "---\n- b\n"},
		{"no YAML", job("a", "") + "---\nname: [\n"},
		{"a tab", job("a", "") + "---\nname: b\n\timage: c\n"},
	} {
		_, _, err := finishAll(c.text)
		if _, is := errors.AsType[*Errors](err); !is || !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		found.Add(c.what+":\n"+c.text, err)
	}
	found.Compare(t, "jobs")
}

// TestRunsThatAreNotThere are reported at the words that name them, with the job that may be meant.
func TestRunsThatAreNotThere(t *testing.T) {
	const text = "name: mesh\nimage: a\n---\nname: plot\nimage: b\nafter: [mehs, {run: old}, gone]\n"
	none := &core.Error{Kind: core.NotFound, Op: "find run", Object: "x", Err: errors.New("nothing")}
	several := &core.Error{Kind: core.Invalid, Op: "find run", Object: "old", Err: errors.New("two"), Remedy: "Choose."}
	_, drafts, err := finishAll(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, why := range []error{none, several, none} {
		drafts[1].RefuseAfter(i, why)
	}
	var found testkit.ErrorList
	found.Add(text, drafts[1].Problems())
	found.Compare(t, "jobs-after")
	if err := drafts[0].Problems(); err != nil {
		t.Errorf("another job: %v", err)
	}
}

// TestTooManyJobs: as many as are allowed are read, and further ones are refused before they
// are.
func TestTooManyJobs(t *testing.T) {
	many := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "name: j%d\nimage: a\nenv: {A: b, C: d}\nafter: [j%d]\n---\n", i, i-1)
		}
		return b.String()
	}
	if jobs, _, err := finishAll(many(maxDocuments)); err != nil || len(jobs) != maxDocuments {
		t.Errorf("%v: %d jobs", err, len(jobs))
	}
	for _, n := range []int{maxDocuments + 1, 5000} {
		if jobs, _, err := finishAll(many(n)); !core.IsKind(err, core.Invalid) || len(jobs) != 1 {
			t.Errorf("%d: %d jobs, %v", n, len(jobs), err)
		}
	}
}

// TestCasesOfAllJobsTogether are as many as one array may have.
func TestCasesOfAllJobsTogether(t *testing.T) {
	array := func(name string, to int) string {
		return fmt.Sprintf("---\nname: %s\nimage: a\narray:\n  cases: {n: {from: 1, to: %d}}\n", name, to)
	}
	most := array("a", mostCases-10) + array("b", 10)
	if _, drafts, err := finishAll(most); err != nil || len(drafts[0].Cases())+len(drafts[1].Cases()) != mostCases {
		t.Errorf("%v: %d jobs", err, len(drafts))
	}
	_, drafts, err := finishAll(most + array("c", 1) + array("d", mostCases))
	wrong, is := errors.AsType[*Errors](err)
	if !is || len(wrong.Problems) != 2 || wrong.Problems[0].Line != 15 || wrong.Problems[1].Line != 20 || len(drafts[2].Cases())+len(drafts[3].Cases()) > 0 {
		t.Errorf("got %v", err)
	}
}
