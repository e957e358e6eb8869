package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestANewSiteContinuesASuspendedRun: one that waits for a site continues as soon as its
// sites file has a new one for it, and no other does.
func TestANewSiteContinuesASuspendedRun(t *testing.T) {
	const other = "  - {name: c, provider: local}\n"
	for name, c := range map[string]struct {
		change    func(*submission.Submission, *state.Run)
		added     string
		continues bool
		resumed   string // whether bee resume takes the new site
	}{
		"a new site":                       {func(*submission.Submission, *state.Run) {}, other, true, "c"},
		"none":                             {func(*submission.Submission, *state.Run) {}, "", false, "a"},
		"one that the Beefile leaves out":  {func(s *submission.Submission, _ *state.Run) { s.Job.Sites = []string{"a"} }, other, false, "a"},
		"a file that cannot be read":       {func(*submission.Submission, *state.Run) {}, "  - {", false, "a"},
		"no file":                          {func(s *submission.Submission, _ *state.Run) { s.SitesFile = "" }, other, false, "a"},
		"a run that shall end":             {func(_ *submission.Submission, r *state.Run) { r.StopAsked = true }, other, false, ""},
		"a job with which something wrong": {func(_ *submission.Submission, r *state.Run) { r.Suspended = state.ReasonNoProgress }, other, false, "c"},
	} {
		t.Run(name, func(t *testing.T) {
			w, run := savedWithNowhereToGo(t)
			run = w.drive(t, run, nil)
			if run.State != state.Suspended {
				t.Fatalf("got %+v", run)
			}
			file := filepath.Join(t.TempDir(), "sites.yaml")
			if err := os.WriteFile(file, []byte("sites:\n  - {name: a, provider: local}\n  - {name: b, provider: local}\n"+c.added), 0o600); err != nil {
				t.Fatal(err)
			}
			sub, err := submission.Of(run)
			if err != nil {
				t.Fatal(err)
			}
			sub.SitesFile = file
			c.change(&sub, &run)
			if run.Submission, err = json.Marshal(sub); err != nil {
				t.Fatal(err)
			}
			if err := w.Store.PutRun(t.Context(), run); err != nil {
				t.Fatal(err)
			}
			if run.StopAsked {
				if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
					t.Fatal(err)
				}
			}
			if awake, err := w.Awaken(t.Context()); err != nil || len(awake) > 0 {
				t.Fatalf("while another process has it: %+v, %v", awake, err)
			}
			if err := w.lock.Unlock(); err != nil {
				t.Fatal(err)
			}
			awake, err := w.Awaken(t.Context())
			if err != nil || (len(awake) == 1) != c.continues {
				t.Fatalf("got %+v, %v", awake, err)
			}
			if c.continues {
				run = awake[0]
			} else if c.resumed != "" {
				if run, err = w.Resume(t.Context(), run, nil); err != nil {
					t.Fatal(err)
				}
			}
			if c.resumed == "" {
				return
			}
			w.sites["c"] = newWorld(t, "c").sites["c"]
			run = w.drive(t, run, nil)
			switch {
			case c.resumed == "a" && run.State != state.Suspended, c.resumed == "c" && run.State != state.Succeeded:
				t.Errorf("it ended as %s: %s\n%s", run.State, run.Message, history(t, w, run.ID))
			case c.continues && !happened(t, w, run.ID, event.NewSites{SitesFile: file, Sites: []string{"c"}}):
				t.Errorf("its history does not say why:\n%s", history(t, w, run.ID))
			}
			w.nothingHeld(t)
		})
	}
}
