package control

import (
	"path"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/control/inputs"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestInputsHaveTheirPlacesAfterAMove: those outside of the volume are where outputs below them
// are looked for, though the checkpoint has others.
func TestInputsHaveTheirPlacesAfterAMove(t *testing.T) {
	dir := t.TempDir()
	testkit.WriteFiles(t, dir, map[string]string{"a/x": "x", "b/y": "y"})
	job := &spec.Job{
		Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: filepath.Join(dir, "a"), To: "/work/a"}, {From: filepath.Join(dir, "b"), To: "/data"}},
		Outputs: []spec.Output{{From: "/data/out", To: dir}},
	}
	copies, err := inputs.PlanAt(inputs.WithoutVolume(job), inputs.Binds(job))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%+v, %v", copies, err)
	}
	list, refused := placed(job, []protocol.OutputMatch{{Path: path.Join(copies[0].Remote, "out")}})
	if len(list) != 1 || len(refused) != 0 {
		t.Errorf("an output below %s: %+v, refused %q", copies[0].Remote, list, refused)
	}
}
