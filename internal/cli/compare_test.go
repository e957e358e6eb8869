package cli

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCompare has the keys that differ and no others, and what became of each run.
func TestCompare(t *testing.T) {
	one := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) { s.Job.Env = map[string]string{"THREADS": "1"} })
	two := runrecords.Succeeded(t, runrecords.PiBeefile, func(s *submission.Submission) { s.Job.Env = map[string]string{"THREADS": "\x1b[2J2"} })
	one.ID, one.Name, two.ID, two.Name = "aaaa1111", "one", "bbbb2222", "two"
	two.State = state.Failed
	d := newDesk(t, one, two)
	if err := d.bee("compare", "one", "two"); err != nil || strings.Contains(d.out.String(), "\x1b") {
		t.Fatalf("%v: %q", err, d.out.String())
	}
	for _, want := range []string{"env", "THREADS", "succeeded", "failed"} {
		if !strings.Contains(d.out.String(), want) {
			t.Errorf("want %q in\n%s", want, d.out.String())
		}
	}
	var v struct {
		Runs []struct{ ID string }
		Job  []report.Pair
	}
	if err := d.bee("compare", "--json", "one", "two"); err != nil || json.Unmarshal(d.out.Bytes(), &v) != nil || len(v.Runs) != 2 || v.Runs[1].ID != two.ID || len(v.Job) != 1 || v.Job[0].Name != "env" {
		t.Errorf("%v: %s", err, d.out.String())
	}
	for _, line := range []string{"compare one", "compare one nosuch"} {
		if err := d.bee(strings.Fields(line)...); console.CodeOf(err) == 0 {
			t.Errorf("%s: no error", line)
		}
	}
}
