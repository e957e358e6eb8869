package runcmd

import (
	"bytes"
	"encoding/json"
	"io"
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runrecords"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/state"
)

// TestMoveOfACaseThatHasEnded: a case that ends between the list of cases and its move is no
// failure; one that is suspended cannot be moved, and is one.
func TestMoveOfACaseThatHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		now    state.RunState
		failed bool
	}{"it has ended": {state.Succeeded, false}, "it is suspended": {state.Suspended, true}} {
		var out bytes.Buffer
		a := NewResume(workspace.New(&out, io.Discard, "0.1.0"))
		a.StateDir = t.TempDir()
		runrecords.Open(t, a.StateDir, state.Run{ID: "aaaa1111", Name: "pi.1", State: c.now}).Close()
		err := a.moveCases(t.Context(), []state.Run{{ID: "aaaa1111", Name: "pi.1", State: state.Running}}, nil, true)
		var got []console.DoneView
		if decoded := json.Unmarshal(out.Bytes(), &got); decoded != nil || len(got) != 1 || (err != nil) != c.failed || (got[0].Error != nil) != c.failed {
			t.Errorf("%s: %v, %v, %+v", name, err, decoded, got)
		} else if !c.failed && got[0].State != c.now {
			t.Errorf("%s: the case is reported as %s", name, got[0].State)
		}
	}
}
