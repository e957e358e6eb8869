package runner

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestWhoseFilesOutputsReplace: those of runs of the same name, as these have left them, and
// others where the Beefile says so. All else stays, and the output is beside it.
func TestWhoseFilesOutputsReplace(t *testing.T) {
	const by = "/work/res"
	for name, c := range map[string]struct {
		between  func(t *testing.T, w *world, first state.Run, file string)
		name     string // of the second run
		replace  bool
		replaces bool
	}{
		"a run of the same name":      {nil, "j", false, true},
		"one of another name":         {nil, "k", false, false},
		"another name, replace: true": {nil, "k", true, true},
		"changed since": {func(t *testing.T, _ *world, _ state.Run, file string) {
			if err := os.WriteFile(file, []byte("mine!"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, "j", false, false},
		"changed since, of the same size": {func(t *testing.T, _ *world, _ state.Run, file string) {
			if err := os.Chtimes(file, time.Time{}, time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}, "j", false, false},
		"a link in its place": {func(t *testing.T, _ *world, _ state.Run, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("elsewhere", file); err != nil {
				t.Fatal(err)
			}
		}, "j", false, false},
		"the run is removed": {func(t *testing.T, w *world, first state.Run, _ string) {
			if err := w.Store.RemoveRun(t.Context(), first.ID); err != nil {
				t.Fatal(err)
			}
		}, "j", false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w, results := newWorld(t, "a"), t.TempDir()
			run := func(name, text string, replace bool) state.Run {
				w.ending(t, 0, map[string]string{"volume/res/day1": text}, protocol.OutputMatch{Path: "volume/res"})
				got := w.drive(t, w.submitJob(t, spec.Job{
					Name: name, Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: by, To: results, Replace: replace}},
				}), nil)
				if got.State != state.Succeeded {
					t.Fatalf("got %+v", got)
				}
				return got
			}
			first, file := run("j", "first", false), filepath.Join(results, "res", "day1")
			if c.between != nil {
				c.between(t, w, first, file)
			}
			there, _ := os.ReadFile(file)
			second := run(c.name, "second run", c.replace)
			raw, err := os.ReadFile(file)
			beside, _ := os.ReadFile(file + "." + second.ID)
			if c.replaces && (err != nil || string(raw) != "second run" || len(beside) > 0) {
				t.Errorf("it holds %q, %v, and beside it is %q", raw, err, beside)
			}
			if !c.replaces && (string(raw) != string(there) || string(beside) != "second run") {
				t.Errorf("it held %q and holds %q, and beside it is %q", there, raw, beside)
			}
		})
	}
}

// TestASiteCannotClaimAFile that is not the run's, by sending one of the same size and time.
func TestASiteCannotClaimAFile(t *testing.T) {
	w, results := newWorld(t, "a"), t.TempDir()
	file, moment := filepath.Join(results, "thesis"), time.Unix(1_700_000_000, 0)
	testkit.WriteFiles(t, results, map[string]string{"thesis": "mine"})
	for range 2 {
		w.ending(t, 0, map[string]string{"volume/thesis": "evil"}, protocol.OutputMatch{Path: "volume/thesis"})
		for _, f := range []string{file, filepath.Join(w.sites["a"].Dir, "volume", "thesis")} {
			if err := os.Chtimes(f, moment, moment); err != nil {
				t.Fatal(err)
			}
		}
		w.drive(t, w.submitJob(t, spec.Job{Name: "j", Nodes: 1, Volume: spec.Volume{Path: "/work"}, Outputs: []spec.Output{{From: "/work/thesis", To: results}}}), nil)
		if raw, err := os.ReadFile(file); err != nil || string(raw) != "mine" {
			t.Fatalf("it holds %q, %v", raw, err)
		}
	}
}
