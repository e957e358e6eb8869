package control

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// A head that is lost leaves its volume as an image: the outputs are taken out
// of that, and not out of what it was made of.
func TestOutputsComeOutOfTheImageOfALostHead(t *testing.T) {
	testkit.RequireTool(t, "e2fsck")
	w := newWorld(t, "a")
	tree, dir, out := t.TempDir(), w.sites["a"].dir, t.TempDir()
	for name, text := range map[string]string{"kept/a": "new", "kept/deep/b": "b", "one.log": "1", "two.log": "2", "other": "x"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(tree, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(tree, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(protocol.VolumeDir(dir), "kept"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(protocol.VolumeDir(dir), "kept/a"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (dataimage.Tools{}).Make(t.Context(), protocol.VolumeImagePath(dir), tree, 0); err != nil {
		t.Fatal(err)
	}
	w.sites["a"].head = events(protocol.Result{Kind: "lost", Message: "host f0 was lost"})
	run := w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/data", Kind: spec.VolumeImage}, VM: &spec.VM{When: spec.VMAlways},
		Outputs: []spec.Copy{{From: "/data/kept", To: out}, {From: "/data/*.log", To: filepath.Join(out, "logs")}, {From: "/data/none", To: out}}})
	w.drive(t, run, nil)
	for name, want := range map[string]string{"kept/a": "new", "kept/deep/b": "b", "logs/one.log": "1", "logs/two.log": "2"} {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 2 {
		t.Errorf("what else came: %v, %v", entries, err)
	}
	if _, err := os.Stat(filepath.Join(w.Store.RunDir(run.ID), "volume.img")); err == nil {
		t.Error("the image stays at home")
	}
}
