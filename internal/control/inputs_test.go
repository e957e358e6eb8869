package control

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestALargeInputIsCountedWhileItIsCopied, and a small one not at all.
func TestALargeInputIsCountedWhileItIsCopied(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "123", "b": "4567"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var totals []int64
		told, end := counting(t.Context(), dir, func(_ string, _, total int64) { totals = append(totals, total) })
		for i := range int64(4) {
			told(i)
			synctest.Wait()
			time.Sleep(600 * time.Millisecond)
		}
		end()
		if want := []int64{0, 0, 0, 7}; !slices.Equal(totals, want) {
			t.Errorf("totals were told as %d, want %d", totals, want)
		}
		told, end = counting(t.Context(), filepath.Join(dir, "b"), func(_ string, _, total int64) {
			if total != 4 {
				t.Errorf("of a file %d is told, want its size", total)
			}
		})
		told(1)
		end()
	})
}

// TestInputsHaveTheirPlacesAfterAMove: those outside of the volume are where outputs below them
// are looked for, though the checkpoint has others.
func TestInputsHaveTheirPlacesAfterAMove(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a/x": "x", "b/y": "y"})
	job := &spec.Job{
		Volume: spec.Volume{Path: "/work"}, Inputs: []spec.Input{{From: filepath.Join(dir, "a"), To: "/work/a"}, {From: filepath.Join(dir, "b"), To: "/data"}},
		Outputs: []spec.Output{{From: "/data/out", To: dir}},
	}
	copies, err := planInputsAt(withoutVolume(job), inputBinds(job))
	if err != nil || len(copies) != 1 {
		t.Fatalf("%+v, %v", copies, err)
	}
	list, refused := placed(job, []protocol.OutputMatch{{Path: path.Join(copies[0].remote, "out")}})
	if len(list) != 1 || len(refused) != 0 {
		t.Errorf("an output below %s: %+v, refused %q", copies[0].remote, list, refused)
	}
}
