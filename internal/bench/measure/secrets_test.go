package measure

import (
	"encoding/json"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/bench/fair"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/runner"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestSecretsAreHidden: a row has no value of a secret, wherever a job has put it, and keeps its status.
func TestSecretsAreHidden(t *testing.T) {
	write := result("out.txt", "speed 7.5\nthe failed one is s3cr3t\"x\nFinished\n", "read=99\n")
	for name, c := range map[string]struct {
		failed, status string
	}{"right": {"", "ok"}, "failed": {"it printed s3cr3t\"x", "failed"}} {
		k := taker(t, func(job *spec.Job, w io.Writer) (Outcome, error) {
			var o Outcome
			var err error
			if len(job.Outputs) > 0 { // else it is a trial
				o, err = write(job, w)
			}
			o.Secrets, o.Failed, o.Remedy = []string{"failed", "2026", "s3cr3t\"x", "line one\nline two", ""}, c.failed, "Leave out s3cr3t\"x."
			o.Found = fair.Found{Programs: map[string]string{"/bin/s3cr3t\"x": "1", "/lib/line two": "2"}, Foreign: []string{"/lib/line one"}, Misled: []string{"/bin/line one"}, Settings: map[string]string{"UCX_TLS": "line two"}, Cores: 1}
			return o, err
		})
		row, err := k.Measure(t.Context(), runner.Measurement{Point: record.Point{Values: map[string]string{"n": "4"}}, Environment: "box"})
		if err != nil || string(row.Status) != c.status || !maps.Equal(row.Programs, map[string]string{"/bin/***": "1", "/lib/***": "2"}) {
			t.Errorf("%s: %+v, %v", name, row, err)
		}
		text, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"s3cr3t", "line one", "line two", "the failed one"} {
			if strings.Contains(string(text), part) {
				t.Errorf("%s: the row has %q: %s", name, part, text)
			}
		}
		o, err := k.Try(t.Context(), record.Point{Values: map[string]string{"n": "4"}}, "box")
		if err != nil || strings.Contains(o.Failed+o.Remedy, "s3cr3t") {
			t.Errorf("%s: a trial has %q, %q, %v", name, o.Failed, o.Remedy, err)
		}
	}
	o := Outcome{Secrets: []string{"abcd", "abcdef"}}
	if got := o.hide("abcdef abcd abc"); got != "*** *** abc" {
		t.Errorf("a value that begins another: %q", got)
	}
	long := strings.Repeat("x", maxOutput-3) + "abc" // the rest was cut
	if got := o.hidden([]byte(long)); strings.Contains(string(got), "abc") {
		t.Error("the beginning of a value is left where the output was cut")
	}
}
