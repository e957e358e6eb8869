package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestPacksThatStop: of packs whose cases run one at a time, the first failed one stops those that have
// not begun, in its own pack and in the others. The next ones are run by `bee retry`.
func TestPacksThatStop(t *testing.T) {
	b, job := busyboxJob(t, "array: {cases: {s: [1, 2, 3, 4, 5]}, pack: 3, at_once: 1, on_failure: stop}", "cores: 1", "run: echo ${case.s} >number; test ${case.s} != 2 || exit 3", "outputs: [{from: number, to: './results/${case.s}'}]")
	r := b.Try("run", "-q", job)
	type row struct {
		State    string
		ExitCode *int `json:"exit_code"`
	}
	var cases, packs []row
	b.JSON(&cases, "ps", "small", "-a", "--json")
	b.JSON(&packs, "ps", "small.packs", "-a", "--json")
	var got []string
	for _, c := range cases {
		code := ""
		if c.ExitCode != nil {
			code = fmt.Sprint(*c.ExitCode)
		}
		got = append(got, c.State+code)
	}
	if text := strings.Join(got, " "); r.Code != 3 || text != "succeeded0 failed3 stopped stopped stopped" || len(packs) != 2 || packs[1].State != "stopped" {
		t.Errorf("%+v: the cases are %s, the packs %+v", r, text, packs)
	}
	if again := b.Try("retry", "-q", "small"); again.Code != 3 {
		t.Errorf("%+v", again)
	}
}
