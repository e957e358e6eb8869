package runner

import (
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestArrivalsEndWithTheRun, those of a lost attempt included.
func TestArrivalsEndWithTheRun(t *testing.T) {
	for name, aside := range map[string]bool{"a run that succeeds": false, "a run that was set aside": true} {
		t.Run(name, func(t *testing.T) {
			w, to := newWorld(t, "a"), t.TempDir()
			w.ending(t, 0, nil)
			run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/res", To: to}}})
			testkit.WriteFiles(t, to, map[string]string{
				".bee-arriving-" + run.ID + "-0123/x": "", "..bee-arriving-" + run.ID + "-4567-89.bee-partial": "", ".bee-fetch-" + run.ID + "/x": "",
				".bee-arriving-another1-0123/x": "theirs", "mine": "mine",
			})
			if aside {
				if _, err := w.setAside(t.Context(), run.ID, &core.Panic{Value: "boom"}); err != nil {
					t.Fatal(err)
				}
				if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
					t.Fatal(err)
				}
			}
			run = w.drive(t, run, nil)
			if got, want := testkit.Files(t, to), map[string]string{".bee-arriving-another1-0123/x": "theirs", "mine": "mine"}; !run.State.Final() || !same(got, want) {
				t.Errorf("%s: got %q, want %q", run.State, got, want)
			}
		})
	}
}
