package runner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// lostImage is a world whose one head is lost, and has left its volume as an
// image: its files are not those that the image was made of.
func lostImage(t *testing.T) *world {
	t.Helper()
	testkit.RequireTool(t, "e2fsck")
	w, tree := newWorld(t, "a"), t.TempDir()
	dir := w.sites["a"].Dir
	testkit.WriteFiles(t, tree, map[string]string{"kept/a": "new", "kept/deep/b": "b", "one.log": "1", "two.log": "2", "other": "x"})
	testkit.WriteFiles(t, protocol.VolumeDir(dir), map[string]string{"kept/a": "old"})
	if err := (dataimage.Tools{}).Make(t.Context(), protocol.VolumeImagePath(dir), tree, 0); err != nil {
		t.Fatal(err)
	}
	w.sites["a"].Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	return w
}

// The outputs are taken out of what a lost head left. The image itself is kept
// at home where the run continues from checkpoints, of which it may be the newest.
func TestOutputsComeOutOfTheImageOfALostHead(t *testing.T) {
	for name, checkpoint := range map[string]*spec.Checkpoint{"no checkpoints": nil, "checkpoints": {Paths: []string{"/data/kept/*"}}} {
		t.Run(name, func(t *testing.T) {
			w, out := lostImage(t), t.TempDir()
			run := w.submitJob(t, spec.Job{
				Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data", Kind: spec.VolumeImage}, VM: &spec.VM{When: spec.VMAlways}, Checkpoint: checkpoint,
				Outputs: []spec.Output{{From: "/data/kept", To: out}, {From: "/data/*.log", To: filepath.Join(out, "logs")}, {From: "/data/none", To: out}},
			})
			w.drive(t, run, nil)
			if got, want := testkit.Files(t, out), map[string]string{"kept/a": "new", "kept/deep/b": "b", "logs/one.log": "1", "logs/two.log": "2"}; !same(got, want) {
				t.Errorf("there came %q, want %q", got, want)
			}
			home := filepath.Join(w.Store.RunDir(run.ID), "volume.img")
			if _, err := os.Stat(home); (err == nil) != (checkpoint != nil) {
				t.Errorf("the image at home: %v", err)
			}
			if happened(t, w, run.ID, event.VolumeImageKept{Path: home}) != (checkpoint != nil) {
				t.Errorf("its history: %s", history(t, w, run.ID))
			}
			if checkpoint == nil {
				return
			}
			image, err := (dataimage.Tools{}).OpenRecovered(t.Context(), home)
			if err != nil {
				t.Fatal(err)
			}
			defer image.Close()
			all := filepath.Join(t.TempDir(), "all")
			if err := image.Unload(t.Context(), all, nil); err != nil {
				t.Fatal(err)
			}
			if got := testkit.Files(t, all); got["other"] != "x" || got["kept/a"] != "new" {
				t.Errorf("it holds %q", got)
			}
		})
	}
}

// A run of which nothing is wanted leaves its image where it is, unless it has
// checkpoints.
func TestTheImageOfALostHeadIsKept(t *testing.T) {
	for name, checkpoint := range map[string]*spec.Checkpoint{"no checkpoints": nil, "checkpoints": {Paths: []string{"/data/kept/*"}}} {
		w := lostImage(t)
		run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data", Kind: spec.VolumeImage}, VM: &spec.VM{When: spec.VMAlways}, Checkpoint: checkpoint})
		w.drive(t, run, nil)
		if _, err := os.Stat(filepath.Join(w.Store.RunDir(run.ID), "volume.img")); (err == nil) != (checkpoint != nil) {
			t.Errorf("%s: the image at home: %v", name, err)
		}
	}
}

// Where the machines were saved with their volume, that of a lost attempt is left where
// it is: the run continues from the one that was written, and nothing of the other is collected.
func TestAVolumeThatWasSavedComesOnce(t *testing.T) {
	w, out := newWorld(t, "a", "b"), t.TempDir()
	a := w.sites["a"]
	a.Head = controltest.Events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	a.Head.Events = append([]protocol.Event{{Phase: core.PhaseRun, Snapshot: 1}}, a.Head.Events...)
	controltest.LeaveMachines(t, protocol.SnapshotDir(a.Dir, 1), "with the disk")
	testkit.WriteFiles(t, a.Dir, map[string]string{filepath.Base(protocol.VolumeImagePath(a.Dir)): "written to since", "volume/in.log": "an input"})
	job := controltest.InMachines()
	job.Volume = spec.Volume{Path: "/v", Kind: spec.VolumeImage}
	job.Checkpoint.Keep = true
	job.Outputs = []spec.Output{{From: "/v/*.log", To: out, Optional: true}}
	run := w.submitJob(t, job)
	if got := w.drive(t, run, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v\n%s", got, history(t, w, run.ID))
	}
	if raw, err := os.ReadFile(filepath.Join(protocol.SavedPart(w.sites["b"].Staged.Local, 0), "memory")); err != nil || string(raw) != "with the disk" {
		t.Errorf("site b got %q, %v\n%s", raw, err, history(t, w, run.ID))
	}
	if got := testkit.Files(t, out); len(got) > 0 {
		t.Errorf("of the lost attempt there came %q", got)
	}
	if _, err := os.Stat(filepath.Join(w.Store.RunDir(run.ID), "volume.img")); err == nil {
		t.Error("its image came home")
	}
}
