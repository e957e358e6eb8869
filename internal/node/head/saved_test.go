package head

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/plan"
)

// fakeMachine is a guest that notes what is done with it.
type fakeMachine struct {
	driver.Container // and what else is below it: its other methods nobody calls
	driver.Snapshot
	done          []string
	saving, going error
	meanwhile     func() // while it is saved
}

// fakeGuest is the guest that a fakeMachine is.
type fakeGuest struct {
	driver.Guest
	m *fakeMachine
}

func (g fakeGuest) Snapshot() driver.Snapshot { return g.m }

func (m *fakeMachine) Guest() driver.Guest        { return fakeGuest{m: m} }
func (m *fakeMachine) Memory() driver.MemoryLimit { return nil }

func (m *fakeMachine) Pause(context.Context) error { m.done = append(m.done, "pause"); return nil }
func (m *fakeMachine) Resume(context.Context) error {
	m.done = append(m.done, "resume")
	return m.going
}

func (m *fakeMachine) Save(_ context.Context, dir string) error {
	m.done = append(m.done, "save")
	if m.meanwhile != nil {
		m.meanwhile()
	}
	return errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "memory"), []byte("all of it"), 0o600), m.saving)
}

func (m *fakeMachine) Get(context.Context, string, []string, string) error {
	m.done = append(m.done, "get")
	return nil
}

func (m *fakeMachine) Stop(context.Context, time.Duration) error {
	m.done = append(m.done, "stop")
	return nil
}

func (m *fakeMachine) Wait(context.Context) (core.Exit, error) { return core.Exit{}, nil }

// headOf is the head of an attempt on one host, with a machine.
func headOf(t *testing.T, m *fakeMachine) *Head {
	t.Helper()
	dir := t.TempDir()
	p := &plan.Plan{VM: &plan.VM{Guest: core.Image{ID: "g"}, NIC: "vhost"}, Image: core.Image{ID: "i"}, Checkpoint: &plan.Checkpoint{VM: true, Grace: time.Minute}}
	c := plan.Config{Size: 1, Host: core.Host{Name: "here", Dir: dir}, Owner: core.Owner{Run: "r"}, Plan: p}
	of := partsOf(t, c)
	of.Current.Set(&container.Container{Container: m})
	h, err := New(of)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestMachinesAreSavedWhole(t *testing.T) {
	m := &fakeMachine{}
	h := headOf(t, m)
	dir := h.config.Host.Dir
	if n, err := h.snapshots.keep(t.Context(), 0); n != 1 || err != nil {
		t.Fatalf("snapshot %d, %v", n, err)
	}
	var saved plan.Saved
	raw, err := os.ReadFile(filepath.Join(plan.SnapshotDir(dir, 1), plan.SavedFile))
	if err = errors.Join(err, json.Unmarshal(raw, &saved)); err != nil || saved.Guest.ID != "g" || saved.Image.ID != "i" || saved.NIC != "vhost" || saved.Nodes != 1 {
		t.Errorf("it says %s, %v", raw, err)
	}
	h.saver.saveMachines(t.Context(), "it is time", time.Minute)
	if want := []string{"pause", "save", "resume", "pause", "save"}; !slices.Equal(m.done, want) || !h.saver.saved || h.saver.snapshot != 2 {
		t.Errorf("done is %q, want %q; saved %v, %d", m.done, want, h.saver.saved, h.saver.snapshot)
	}
}

// TestASnapshotThatFails leaves nothing that looks like one, and the machines go
// on; where they cannot, the attempt is lost.
func TestASnapshotThatFails(t *testing.T) {
	m := &fakeMachine{saving: errors.New("the disk is full")}
	h := headOf(t, m)
	h.saver.saveMachines(t.Context(), "it is time", time.Minute)
	left, err := filepath.Glob(filepath.Join(h.config.Host.Dir, "snapshots", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left are %q, %v", left, err)
	}
	if !slices.Equal(m.done, []string{"pause", "save", "resume"}) || h.saver.saved || h.end.over.Err() != nil {
		t.Errorf("done is %q, saved %v, %v", m.done, h.saver.saved, h.end.over.Err())
	}
	m.going = errors.New("QEMU has ended")
	if _, err := h.snapshots.keep(t.Context(), 0); err == nil || !core.IsKind(context.Cause(h.end.over), core.Lost) {
		t.Errorf("with a machine that does not continue: %v, the attempt %v", err, context.Cause(h.end.over))
	}
}

// TestAJobThatEndsWhileItsMachinesAreSaved loses no outputs: they are taken once the
// machines continue, and where they are on a disk that outlives them, these are not ended
// before.
func TestAJobThatEndsWhileItsMachinesAreSaved(t *testing.T) {
	for kind, want := range map[string][]string{
		plan.VolumeHosts: {"pause", "save", "resume", "get", "stop"},
		plan.VolumeImage: {"pause", "save", "resume", "stop"},
	} {
		m := &fakeMachine{}
		h := headOf(t, m)
		h.plan.VM.Volume, h.plan.Volume, h.plan.Outputs = kind, "/data", []string{"/data"}
		ended := make(chan struct{})
		m.meanwhile = func() {
			go func() { h.conclude(nil); close(ended) }()
			select {
			case <-ended:
			case <-time.After(100 * time.Millisecond): // it waits, as it ought to
			}
		}
		if _, err := h.snapshots.keep(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
		<-ended
		if !slices.Equal(m.done, want) {
			t.Errorf("%s: done is %q, want %q", kind, m.done, want)
		}
	}
}

// TestOnlyTheCommandIsSaved: what a half-done setup has left is no checkpoint.
func TestOnlyTheCommandIsSaved(t *testing.T) {
	h := headOf(t, &fakeMachine{})
	for phase, want := range map[core.Phase]bool{core.PhaseStart: false, core.PhaseSetup: false, core.PhaseRun: true} {
		h.journal.Enter(phase)
		for _, cause := range []error{errSlotEnds, errTakenBack} {
			if _, is := h.saver.savingFor(cause); is != want {
				t.Errorf("in phase %s, as %v: %v", phase, cause, is)
			}
		}
	}
}
