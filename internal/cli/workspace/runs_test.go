package workspace

import (
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestARunThatWasRemoved: nobody knows how it ended. The exit code that it was suspended with is not that
// of its end, and its own command has not failed.
func TestARunThatWasRemoved(t *testing.T) {
	store, code := runrecords.Open(t, t.TempDir()), 3
	s := &Session{Controller: &control.Controller{Runner: control.Runner{Store: store}}}
	over, err := s.AwaitEnds(t.Context(), []state.Run{{ID: "aaaa1111", State: state.Running, ExitCode: &code}}, false)
	if err != nil || len(over) != 1 {
		t.Fatalf("%+v, %v", over, err)
	}
	if over[0].ExitCode != nil || over[0].Remedy == "" || CodeOf(over[0]) == 0 || core.KindNamed(over[0].Kind) != core.NotFound {
		t.Errorf("it ended as %+v", over[0])
	}
}
