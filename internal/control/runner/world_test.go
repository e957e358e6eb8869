package runner

import (
	"cmp"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/transfer"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// world is a controller over fake sites.
type world struct {
	*Runner
	sites map[string]*controltest.Site
	names []string
	lock  *state.Lock // of the last run that was submitted
	first *state.Lock // of the run whose volume others read
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	fakes := controltest.NewWorld(t, names...)
	return &world{sites: fakes.Sites, names: names, Runner: &Runner{
		Store: fakes.Store, Provider: fakes.Provider, Images: controltest.Images{}, LocalStore: controltest.LocalStore,
		Secure: controltest.Proven, Connect: controltest.Connect,
		Log: slog.New(slog.DiscardHandler), Report: func(protocol.Event) {}, Routes: &transfer.Routes{},
	}}
}

// submit records a run over all sites.
func (w *world) submit(t *testing.T) state.Run {
	t.Helper()
	return w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
}

func (w *world) submitJob(t *testing.T, job spec.Job) state.Run {
	t.Helper()
	run, lock := controltest.Submit(t, w.Store, job, w.names)
	w.lock = lock
	return run
}

func (w *world) drive(t *testing.T, run state.Run, stop <-chan struct{}) state.Run {
	t.Helper()
	got, err := w.Drive(t.Context(), run.ID, stop)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// nothingHeld fails the test if a lease is left on any site.
func (w *world) nothingHeld(t *testing.T) {
	t.Helper()
	for name, s := range w.sites {
		if len(s.Held) > 0 {
			t.Errorf("site %s still holds %v", name, s.Held)
		}
	}
}

func journal(t *testing.T, dir string, list ...protocol.Event) {
	t.Helper()
	var raw []byte
	for i, e := range list {
		e.Seq = cmp.Or(e.Seq, int64(i+1))
		line, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		raw = append(append(raw, line...), '\n')
	}
	if err := os.WriteFile(filepath.Join(dir, "events.jsonl"), append(raw, `{"torn`...), 0o600); err != nil {
		t.Fatal(err)
	}
}
