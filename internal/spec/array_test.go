package spec

import (
	"fmt"
	"strings"
	"testing"
)

func arrayDraft(array, rest string) *Draft {
	return DraftOf("job.yaml", []byte("name: model\nimage: docker.io/library/debian:12\narray: "+array+"\n"+rest+"\n"), "/home/ann")
}

// TestCases are a product of values, the last of which varies fastest, or a list, without what
// is excluded.
func TestCases(t *testing.T) {
	for array, want := range map[string]string{
		"{cases: {t: [300, 310], s: {from: 1, to: 3}}}":                                     "[s=1 t=300 s=2 t=300 s=3 t=300 s=1 t=310 s=2 t=310 s=3 t=310]",
		"{cases: {t: [300, 310], s: {from: 1, to: 3, step: 2}}, exclude: [{t: 300, s: 3}]}": "[s=1 t=300 s=1 t=310 s=3 t=310]",
		"{cases: [{a: x}, {a: y, b: z}]}":                                                   "[a=x a=y b=z]",
		"{cases: {s: {from: 1, to: 1000}}, exclude: [{s: 1}]}":                              "999",
		"{cases: [{a: x}, {a: x}]}":                                                         "case 2 is equal to case 1",
		"{cases: {s: {from: -9223372036854775808, to: 9223372036854775807}}}":               "no range",
		"{cases: {s: [1]}, exclude: [{s: 2}]}":                                              "no case has these values",
		"{cases: {s: [\"${case.s}\"]}}":                                                     "not replaced here",
		"{cases: {}}":                                                                       "no case",
		"{cases: [{a: 'x b:y'}, {a: x, b: y}]}":                                             "[a=x b:y a=x b=y]",
		"{cases: {s: {from: 1, to: 1001}}}":                                                 "no range",
		"{cases: {s: {from: 1, to: 100}, t: {from: 1, to: 100}}}":                           "at most 1000",
		"{cases: {s: {from: 3, to: 1}}}":                                                    "no range",
		"{cases: {s: 3}}":                                                                   "list of values",
		"{cases: many}":                                                                     "mapping of parameters",
		"{cases: {'a b': [1]}}":                                                             "no name of a parameter",
		"{at_once: 3}":                                                                      "no case",
		"{cases: {s: [1]}, exclude: [{s: 1}]}":                                              "no case",
		"{cases: {s: [1]}, at_once: -1}":                                                    "at_once",
		"{cases: {s: [1]}, on_failure: stop}":                                               "[s=1]",
		"{cases: {s: [1]}, on_failure: halt}":                                               `"halt" is not known`,
		"{cases: {s: [1]}, on_failure: {at: 0%}}":                                           "no share",
		"{cases: {s: [1]}, on_failure: {at: 2.5}}":                                          "no share",
		"{cases: {s: [1]}, on_failure: {}}":                                                 "no share",
		"{case: {s: [1]}}":                                                                  `did you mean "cases"`,
	} {
		d := arrayDraft(array, "run: echo")
		got := fmt.Sprint(d.Cases())
		if len(d.Cases()) > 10 {
			got = fmt.Sprint(len(d.Cases()))
		}
		if _, err := d.Finish(); err != nil {
			got = err.Error()
		}
		if got != want && (strings.HasPrefix(want, "[") || !strings.Contains(got, want)) {
			t.Errorf("%s: got %s, want %s", array, got, want)
		}
	}
}

// TestValuesOfCases are replaced where a job says what it does, and none becomes a command.
func TestValuesOfCases(t *testing.T) {
	d := arrayDraft("{cases: [{t: 300, n: 2, w: 'a; b'}, {t: 310, n: 3, w: c}]}", `
run: ./model "${case.t}" '${case.t}' ${HOME} $${case.t}
setup: [echo, "${case.w}"]
nodes: ${case.n}
env: {T: "t is ${case.w}"}
outputs: [{from: out.dat, to: "./results/${case.t}/${run.id}"}]`)
	job, err := d.Case(1).Finish()
	if err != nil {
		t.Fatal(err)
	}
	if job.Run.Shell != `./model "300" '300' ${HOME} ${case.t}` || job.Setup.Argv[1] != "a; b" || job.Nodes != 2 || job.Array != nil || job.Name != "model.1" ||
		job.Env["T"] != "t is a; b" || job.Env["BEE_CASE"] != "1" || job.Env["BEE_CASE_NAME"] != "model.1" || job.Outputs[0].To != "/home/ann/results/300/"+RunID {
		t.Errorf("got %+v", job)
	}
	if second, err := d.Case(2).Finish(); err != nil || second.Nodes != 3 || second.Name != "model.2" {
		t.Errorf("%v: %+v", err, second)
	}
	for rest, want := range map[string]string{
		"run: ./model ${case.w}":                       "job.yaml:4:6",
		"run: ./model ${case.T}":                       "has no parameter",
		"run: echo\nsites: ['${case.t}']":              "not replaced here",
		"run: echo\nsecrets: {A: {exec: '${case.t}'}}": "not replaced here",
		"run: echo\nenv: {BEE_CASE: x}":                "bee sets it",
	} {
		_, err := arrayDraft("{cases: [{t: 300, w: 'a; b'}]}", rest).Finish()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", rest, err, want)
		}
	}
}

// TestOnFailure: a share of the cases is rounded up, so that it is never reached without one.
func TestOnFailure(t *testing.T) {
	for text, want := range map[string][2]int{"continue": {0, 0}, "stop": {1, 1}, "{at: 3}": {3, 3}, "{at: 5%}": {1, 5}, "{at: 0.5%}": {1, 1}, "{at: 100%}": {10, 100}, "{at: 34%}": {4, 34}} {
		job, err := arrayDraft("{cases: {s: [1]}, on_failure: "+text+"}", "run: echo").Finish()
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		f := job.Array.OnFailure
		if got := [2]int{f.Limit(10), f.Limit(100)}; got != want {
			t.Errorf("%s: of 10 and 100 cases %v, want %v", text, got, want)
		}
	}
}
