package runcmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestInputComesOnce: runs that would lose it are refused.
func TestInputComesOnce(t *testing.T) {
	for name, c := range map[string]struct {
		lends    interactive
		job      spec.Job
		from     jobSource
		detached bool
		refused  bool
	}{
		"neither":                      {job: spec.Job{Retry: 1}, detached: true},
		"input":                        {lends: interactive{input: true}},
		"in the background":            {lends: interactive{input: true}, detached: true, refused: true},
		"a terminal in the background": {lends: interactive{terminal: true}, detached: true, refused: true},
		"of a Beefile that came there": {lends: interactive{input: true}, from: jobSource{input: true}, refused: true},
		"with checkpoints":             {lends: interactive{input: true}, job: spec.Job{Checkpoint: &spec.Checkpoint{}}, refused: true},
		"with retries":                 {lends: interactive{input: true}, job: spec.Job{Retry: 1}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			sub := submission.Submission{Job: c.job}
			err := c.lends.change(&sub, c.from, c.detached)
			if (err != nil) != c.refused || err != nil && (!core.IsKind(err, core.Invalid) || core.Remedy(err) == "") {
				t.Errorf("got %v", err)
			}
			if sub.Input != (err == nil && c.lends.any()) {
				t.Errorf("input: %v", sub.Input)
			}
		})
	}
}
