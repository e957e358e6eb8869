package spec

import (
	"errors"
	"fmt"
	"testing"
)

// placesOf are the places of what is wrong, as LINE:COLUMN.
func placesOf(t *testing.T, err error) (places []string) {
	t.Helper()
	if all, is := errors.AsType[*Errors](err); is {
		for _, p := range all.Problems {
			places = append(places, fmt.Sprintf("%d:%d", p.Line, p.Column))
		}
	} else if err != nil {
		t.Error(err)
	}
	return places
}

// TestOutputsOfCasesInOnePlace, and keys that cases of a pack cannot have of their own, are found in
// the Beefile, at their line and column.
func TestOutputsOfCasesInOnePlace(t *testing.T) {
	const four = "{cases: {s: [1, 2, 3, 4]}}"
	for _, c := range []struct{ array, rest, want string }{
		{four, "outputs: [{from: a, to: './${case.s}'}]", "[]"},
		{four, "outputs: [{from: a, to: '${run.id}'}]", "[]"},
		{four, "outputs: [{from: 'a${case.s}', to: .}]", "[]"},
		{four, "outputs: [{from: a, to: .}]", "[4:25]"},
		{four, "outputs: [{from: a}]", "[4:11]"},
		{four, "outputs: [a]", "[4:11]"},
		{four, "outputs: [{from: 'b${case.s}', to: x}, {from: '*', to: ./x}]", "[4:36]"},
		{"{cases: [{s: a}, {s: a/a}]}", "outputs: [{from: a, to: './${case.s}'}]", "[4:25]"},
		{"{cases: {s: [1, 2, 3, 4]}, pack: 2}", "outputs: [{from: a, to: './${case.s}'}]\nenv: {S: '${case.s}'}", "[]"},
		{"{cases: {s: [1, 2, 3, 4]}, pack: 2}", "time: ${case.s}h", "[4:1]"},
		{"{cases: {s: [1, 2, 3, 4]}, pack: 1}", "time: ${case.s}h", "[]"},
		{"{cases: [{s: 1, t: a}, {s: 1, t: b}, {s: 2, t: a}, {s: 2, t: b}], pack: 2}", "time: ${case.s}h", "[]"},
		{"{cases: {s: [1, 2, 3, 4]}, pack: 2}", "inputs: [{from: './${case.s}', to: /in}]", "[4:1]"},
		{"{cases: {s: [1, 2, 3, 4]}, pack: 2}", "nodes: ${case.s}", "[4:1]"},
		{"{cases: {s: [a, b]}, pack: 2}", "outputs: [{from: '${case.s}', to: '${case.s}'}]", "[]"},
	} {
		d := arrayDraft(c.array, c.rest)
		if _, err := d.Finish(); err != nil {
			t.Fatalf("%s, %s: %v", c.array, c.rest, err)
		}
		n := 0
		err := d.OutputPlaces().AddCases(func(*Job) { n++ })
		if got := fmt.Sprint(placesOf(t, err)); got != c.want || (err == nil) != (n == len(d.Cases())) {
			t.Errorf("%s, %s: at %s after %d cases, want %s: %v", c.array, c.rest, got, n, c.want, err)
		}
	}
}

// TestOutputsOfJobsInOnePlace are found in the file, unless one job is over when the other begins.
func TestOutputsOfJobsInOnePlace(t *testing.T) {
	job := func(name, rest string) string { return "name: " + name + "\nimage: x\n" + rest + "\n---\n" }
	const here = "outputs: [{from: o, to: .}]"
	for text, want := range map[string]string{
		job("a", here) + job("b", here):                                                                                                  "[7:25]",
		job("a", here) + job("b", "after: [a]\n"+here):                                                                                   "[]",
		job("a", "after: [b]\n"+here) + job("b", here):                                                                                   "[]",
		job("a", here) + job("b", "after: [a]") + job("c", "after: [{run: b, on: end}]\n"+here):                                          "[]",
		job("a", here) + job("b", "after: [a]") + job("c", here):                                                                         "[11:25]",
		job("a", here) + job("b", "outputs: [{from: o, to: ./b}]"):                                                                       "[]",
		job("a", here) + job("b", "outputs: [{from: o, to: '${run.id}'}]"):                                                               "[]",
		job("a", "array: {cases: {s: [1, 2]}}\noutputs: [{from: o, to: './r/${case.s}'}]") + job("b", "outputs: [{from: o, to: ./r/2}]"): "[8:25]",
		job("a", "outputs: [{from: o, to: ./r/2}]") + job("b", "array: {cases: {s: [1, 2]}}\noutputs: [{from: o, to: './r/${case.s}'}]"): "[8:25]",
	} {
		var all []*DraftPlaces
		for _, d := range DraftsOf("job.yaml", []byte(text[:len(text)-len("---\n")]), "/home/ann") {
			complete, err := d.Finish()
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			p := d.OutputPlaces()
			if len(d.Cases()) == 0 {
				p.Add(complete, 0)
			} else if err := p.AddCases(func(*Job) {}); err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			all = append(all, p)
		}
		if got := fmt.Sprint(placesOf(t, OutputsApart(all))); got != want {
			t.Errorf("%s: at %s, want %s", text, got, want)
		}
	}
}
