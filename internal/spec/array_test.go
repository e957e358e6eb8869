package spec

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

func arrayDraft(array, rest string) *Draft {
	return DraftOf("job.yaml", []byte("name: model\nimage: docker.io/library/debian:12\narray: "+array+"\n"+rest+"\n"), "/home/ann")
}

// TestCases are a product of values, the last of which varies fastest, or a list, without what
// is excluded.
func TestCases(t *testing.T) {
	cases := map[string]string{ // the cases, their number, or "" where it is refused
		"{cases: {t: [300, 310], s: {from: 1, to: 3}}}":                                     "[s=1 t=300 s=2 t=300 s=3 t=300 s=1 t=310 s=2 t=310 s=3 t=310]",
		"{cases: {t: [300, 310], s: {from: 1, to: 3, step: 2}}, exclude: [{t: 300, s: 3}]}": "[s=1 t=300 s=1 t=310 s=3 t=310]",
		"{cases: [{a: x}, {a: y, b: z}]}":                                                   "[a=x a=y b=z]",
		"{cases: {s: {from: 1, to: 100000}}, exclude: [{s: 1}]}":                            "99999",
		"{cases: [{a: x}, {a: x}]}":                                                         "",
		"{cases: {s: {from: -9223372036854775808, to: 9223372036854775807}}}":               "",
		"{cases: {s: [1]}, exclude: [{s: 2}]}":                                              "",
		"{cases: {s: [\"${case.s}\"]}}":                                                     "",
		"{cases: {}}":                                                                       "",
		"{cases: [{a: 'x b:y'}, {a: x, b: y}]}":                                             "[a=x b:y a=x b=y]",
		"{cases: {s: {from: 1, to: 100001}}}":                                               "",
		"{cases: {s: {from: 1, to: 1000}, t: {from: 1, to: 101}}}":                          "",
		"{cases: {s: {from: 3, to: 1}}}":                                                    "",
		"{cases: {s: 3}}":                                                                   "",
		"{cases: many}":                                                                     "",
		"{cases: {'a b': [1]}}":                                                             "",
		"{at_once: 3}":                                                                      "",
		"{cases: {s: [1]}, exclude: [{s: 1}]}":                                              "",
		"{cases: {s: [1]}, at_once: -1}":                                                    "",
		"{cases: {s: [1]}, on_failure: stop}":                                               "[s=1]",
		"{cases: {s: [1]}, on_failure: halt}":                                               "",
		"{cases: {s: [1]}, on_failure: {at: 0%}}":                                           "",
		"{cases: {s: [1]}, on_failure: {at: 2.5}}":                                          "",
		"{cases: {s: [1]}, on_failure: {}}":                                                 "",
		"{case: {s: [1]}}":                                                                  "",
	}
	var refused testkit.ErrorList
	for _, array := range slices.Sorted(maps.Keys(cases)) {
		want := cases[array]
		d := arrayDraft(array, "run: echo")
		got := fmt.Sprint(d.Cases())
		if len(d.Cases()) > 10 {
			got = fmt.Sprint(len(d.Cases()))
		}
		if _, err := d.Finish(); err != nil {
			got = ""
			refused.Add(array, err)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", array, got, want)
		}
	}
	refused.Compare(t, "array")
}

// TestNotInPacks: what packed cases cannot have is refused where it is.
func TestNotInPacks(t *testing.T) {
	for rest, refused := range map[string]bool{
		"run: x\ncores: 2\nmemory: 1G\nsetup: y\npost: z\nlabels: {a: b}\ncheckpoint: {signal: USR1, grace: 1m}\nresume: y": false,
		"run: x\ninputs: [{from: ./a, to: /data}]\noutputs: [{from: a, to: ./a}, {from: /work/b, to: ./b}]":                 false,
		"run: x\noutputs: [{from: \"out-${case.s}\", to: ./a}]":                                                             false,
		"run: x\nnodes: 2": true,
		"run: x\nvm: {}":   true,
		"run: x\nvolume: {kind: burst, remote: ./r}":           true,
		"run: x\ntimeout: 1m":                                  true,
		"run: x\nprogress: {match: (x)}":                       true,
		"run: x\nmetrics: {e: (x)}":                            true,
		"run: x\nretry: 1":                                     true,
		"run: x\ncheckpoint: {file: STOP}":                     true,
		"run: x\ncheckpoint: {command: x}":                     true,
		"run: x\ncheckpoint: {signal: TERM, every: 1h}":        true,
		"run: x\ncheckpoint: {signal: TERM, paths: [a]}":       true,
		"run: x\ninputs: [{from: ./a, to: /work/a}]":           true,
		"run: x\noutputs: [{from: ../a, to: ./a}]":             true,
		"run: x\noutputs: [{from: /etc/a, to: ./a}]":           true,
		"run: x\nworkdir: /tmp\noutputs: [{from: a, to: ./a}]": true,
	} {
		_, err := arrayDraft("{cases: {s: [1]}, pack: 2}", rest).Finish()
		all, is := errors.AsType[*Errors](err)
		switch {
		case !refused && err != nil:
			t.Errorf("%q: %v", rest, err)
		case refused && !is:
			t.Errorf("%q: %v", rest, err)
		case refused:
			for _, p := range all.Problems {
				if p.Line < 4 || p.Column == 0 {
					t.Errorf("%q: it is at %d:%d", rest, p.Line, p.Column)
				}
			}
		}
	}
}

// TestValuesOfCases are replaced where a job says what it does, and none becomes a command.
func TestValuesOfCases(t *testing.T) {
	d := arrayDraft("{cases: [{t: 300, n: 2, w: 'a; b'}, {t: 310, n: 3, w: c}]}", `
run: ./model "${case.t}" '${case.t}' ${HOME} $${case.t}
setup: [echo, "${case.t}"]
resume: ./model --from ${case.w}
nodes: ${case.n}
time: ${case.n}h
inputs: [{from: "./in/${case.t}", to: "/data/${case.w}"}]
env: {T: "t is ${case.w}"}
outputs: [{from: out.dat, to: "./results/${case.t}/${run.id}"}]
checkpoint: {signal: TERM}`)
	job, err := d.Case(1).Finish()
	if err != nil {
		t.Fatal(err)
	}
	if job.Run.Shell != `./model "300" '300' ${HOME} ${case.t}` || job.Setup.Argv[1] != "300" || job.Nodes != 2 || job.Array != nil || job.Name != "model.1" ||
		job.Resume.Shell != `./model --from "${BEE_VALUE_3}"` || job.Env["BEE_VALUE_3"] != "a; b" || job.Time != 2*time.Hour || job.Inputs[0] != (Input{From: "/home/ann/in/300", To: "/data/a; b"}) ||
		job.Env["T"] != "t is a; b" || job.Env["BEE_CASE"] != "1" || job.Env["BEE_CASE_NAME"] != "model.1" || job.Outputs[0].To != "/home/ann/results/300/"+RunID {
		t.Errorf("got %+v", job)
	}
	if second, err := d.Case(2).Finish(); err != nil || second.Nodes != 3 || second.Name != "model.2" || second.Resume.Shell != "./model --from c" || second.Time != 3*time.Hour || second.Inputs[0].From != "/home/ann/in/310" {
		t.Errorf("%v: %+v", err, second)
	}
	var refused testkit.ErrorList
	for _, rest := range []string{
		"run: sh -c './model ${case.w}'",
		"run: echo $((${case.w}))",
		"run: [sh, -c, './model ${case.w}']",
		"run: ./model ${case.T}",
		"run: echo\nsites: ['${case.t}']",
		"run: echo\nsecrets: {A: {exec: '${case.t}'}}",
		"run: echo\nenv: {BEE_CASE: x}",
		"run: echo\nenv: {BEE_VALUE_1: x}",
		"run: echo\noutputs: [{from: a, to: './results/${case.up}'}]",
	} {
		_, err := arrayDraft("{cases: [{t: 300, w: 'a; b', up: ../../.ssh}]}", rest).Finish()
		if !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", rest, err)
		}
		refused.Add(rest, err)
	}
	refused.Compare(t, "values-of-cases")
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
