package runner

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// TestMachinesGoOnOnTheNextSite: they are brought to where the head looks for
// them, with the images that they had, and the inputs are not brought again.
func TestMachinesGoOnOnTheNextSite(t *testing.T) {
	w := newWorld(t, "a", "b")
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: core.Lost.String(), Continue: true, Snapshot: 3, Outputs: []protocol.OutputMatch{}})
	controltest.LeaveMachines(t, protocol.SnapshotDir(w.sites["a"].Dir, 3), "memory of a")
	leaveVolume(t, w.sites["a"].Dir, "of no use")
	run := w.submitJob(t, controltest.InMachines())
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v", got)
	}
	b := w.sites["b"]
	raw, err := os.ReadFile(filepath.Join(protocol.SavedPart(b.Staged.Local, 0), "memory"))
	if err != nil || string(raw) != "memory of a" || b.Staged.Remote != protocol.RestoreDir(b.Dir) {
		t.Errorf("site b got %q in %s, %v", raw, b.Staged.Remote, err)
	}
	var c protocol.Config
	if err := json.Unmarshal(b.Launched.Config, &c); err != nil || !c.Plan.Restore || c.Plan.Image.ID != "image" || c.Plan.VM.Guest.ID != "guest" || c.Plan.VM.NIC != "saved" || !c.Plan.SavesVM() {
		t.Errorf("its head was told %+v, %v", c.Plan, err)
	}
	if attempts, err := w.Store.Attempts(t.Context(), run.ID); err != nil || len(attempts) != 2 || attempts[1].Guest != "guest" {
		t.Errorf("the image that the machines boot is not on record: %+v, %v", attempts, err)
	}
	w.nothingHeld(t)
}

// TestMachinesKeepTheirDevice: what was saved continues with what it had, not with
// what is the default now.
func TestMachinesKeepTheirDevice(t *testing.T) {
	for _, c := range []struct {
		saved     *protocol.Saved
		has, want string
	}{
		{&protocol.Saved{NIC: "vhost"}, "", "vhost"},
		{&protocol.Saved{NIC: "socket"}, "socket", "socket"},
		{&protocol.Saved{}, "", "socket"}, // before it was noted
		{&protocol.Saved{}, "vhost", "vhost"},
	} {
		a := attemptOf(control(&Runner{}, state.Run{}, submission.Submission{Job: spec.Job{VM: &spec.VM{NIC: c.has}}}), &drive{}, spec.Site{}, nil, state.Attempt{})
		a.staging.saved = c.saved
		if p, err := a.staging.guests().Plan(t.Context()); err != nil || p.NIC != c.want {
			t.Errorf("saved with %q, the Beefile says %q: %+v, %v", c.saved.NIC, c.has, p, err)
		}
	}
}
