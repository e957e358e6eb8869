package control

import (
	"log/slog"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/transfer"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// world is a controller over fake sites.
type world struct {
	*Controller
	sites map[string]*controltest.Site
	names []string
}

func newWorld(t *testing.T, names ...string) *world {
	t.Helper()
	fakes := controltest.NewWorld(t, names...)
	return &world{sites: fakes.Sites, names: names, Controller: &Controller{Runner: Runner{
		Store: fakes.Store, Provider: fakes.Provider, Images: controltest.Images{}, LocalStore: controltest.LocalStore,
		Secure: controltest.Proven, Connect: controltest.Connect,
		Log: slog.New(slog.DiscardHandler), Report: func(protocol.Event) {}, Routes: &transfer.Routes{},
	}}}
}

// submitJob records a run over all sites.
func (w *world) submitJob(t *testing.T, job spec.Job) state.Run {
	t.Helper()
	run, _ := controltest.Submit(t, w.Store, job, w.names)
	return run
}
