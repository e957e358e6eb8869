package spec

import (
	"reflect"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestInputsOfEarlierRuns: each names a run, after which the job begins, and a path in the
// volume of that run.
func TestInputsOfEarlierRuns(t *testing.T) {
	const head = "image: x\nrun: y\n"
	job, err := ParseJob("f", []byte(head+"after: [{run: plot, on: end}]\ninputs: [{from: {run: prep, path: mesh}, to: /work}, {from: {run: prep, path: .}, to: /all}, {from: {run: plot, path: a.png}, to: /in/}, {from: data, to: /data}]\n"), "/d")
	if err != nil {
		t.Fatal(err)
	}
	if want := []Input{{Earlier: RunPath{"prep", "mesh"}, To: "/work"}, {Earlier: RunPath{"prep", "."}, To: "/all"}, {Earlier: RunPath{"plot", "a.png"}, To: "/in/"}, {From: "/d/data", To: "/data"}}; !reflect.DeepEqual(job.Inputs, want) {
		t.Errorf("got %+v", job.Inputs)
	}
	if len(job.After) != 2 || job.After[0] != (After{Run: "plot", On: AfterEnd}) || job.After[1].Run != "prep" || job.After[1].On != "" {
		t.Errorf("it begins after %+v", job.After)
	}
	text, err := job.Beefile()
	again, perr := ParseJob("f", text, "/d")
	if err != nil || perr != nil || !reflect.DeepEqual(again.Inputs, job.Inputs) {
		t.Errorf("%v, %v: its text is\n%s", err, perr, text)
	}
	if asked := job.Reaches("/d"); len(asked) != 3 || asked[0].Key != "inputs[0].from" {
		t.Errorf("the user of another one's file is asked for %+v", asked)
	}
	array := DraftsOf("f", []byte(head+"name: a\narray: {cases: {s: [1, 2]}}\ninputs: [{from: {run: \"prep.${case.s}\", path: \"mesh/${case.s}\"}, to: /work}]\n"), "/d")[0]
	one, err := array.Case(2).Finish()
	if err != nil || one.Inputs[0].Earlier != (RunPath{"prep.2", "mesh/2"}) || one.After[0].Run != "prep.2" {
		t.Errorf("%v: the case has %+v after %+v", err, one.Inputs, one.After)
	}
	var refused testkit.ErrorList
	for _, from := range []string{
		"{run: prep}", "{path: mesh}", "{run: ' ', path: mesh}", "{}", "{run: prep, path: /work/mesh}", "{run: prep, path: ../mesh}", "{run: prep, path: a/../..}",
		"{run: prep, path: 'mesh/*'}", "{run: prep, paths: mesh}", "{run: [prep], path: mesh}", "[prep, mesh]", "{run: prep, path: " + strings.Repeat("a/", longestEarlier) + "}",
	} {
		_, err := ParseJob("f", []byte(head+"inputs: [{from: "+from+", to: /work}]\n"), "/d")
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", from, err)
		}
		if len(from) < 100 {
			refused.Add(from, err)
		}
	}
	_, err = ParseJob("f", []byte(head+"inputs: [{from: {run: prep, path: mesh}, to: work, sha256: aa}]\n"), "/d")
	refused.Add("more", err)
	refused.Compare(t, "earlier")
}

// TestInputsOfJobsBeside: a name means the job of the same file, and circles are errors.
func TestInputsOfJobsBeside(t *testing.T) {
	job := func(name, inputs string) string { return "name: " + name + "\nimage: x\nrun: y\n" + inputs + "---\n" }
	reads := func(run string) string { return "inputs: [{from: {run: " + run + ", path: out}, to: /work}]\n" }
	_, drafts, err := finishAll(job("plot", reads("mesh")+"after: [{run: mesh, on: end}]\n") + job("mesh", reads("old")) + job("view", reads("plot")))
	if err != nil || !reflect.DeepEqual(drafts[0].Links(), []Link{{0, 1}}) || len(drafts[1].Links()) != 0 || !reflect.DeepEqual(drafts[2].Links(), []Link{{0, 0}}) {
		t.Errorf("%v: %v, %v, %v", err, drafts[0].Links(), drafts[1].Links(), drafts[2].Links())
	}
	var refused testkit.ErrorList
	for name, text := range map[string]string{
		"a circle":        job("a", reads("b")) + job("b", reads("a")),
		"itself":          job("a", reads("a")) + job("b", ""),
		"an array":        job("a", "array: {cases: {s: [1, 2]}}\n") + job("b", reads("a")),
		"part of another": job("a", "array: {cases: {s: [1, 2]}}\n") + job("b", reads("a.1")),
	} {
		if _, _, err := finishAll(text); !core.IsKind(err, core.Invalid) || strings.Count(err.Error(), "inputs[0].from.run") != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, drafts, _ = finishAll(job("a", "") + job("b", reads("mseh")))
	drafts[1].RefuseAfter(0, &core.Error{Kind: core.NotFound})
	refused.Add("an unknown one", drafts[1].Problems())
	refused.Compare(t, "earlier beside")
}
