package runner

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/testkit"
)

// preparing is a run on site a, which keeps files without its hosts or does not, and leaves a
// mesh. Reading is a run on site b that has it as an input, if prep ends so.
func preparing(t *testing.T, keeps bool, on string) (w *world, prep, reading state.Run) {
	t.Helper()
	w = newWorld(t, "a", "b")
	w.sites["a"].Yields, w.sites["b"].Yields = keeps, true
	grid := filepath.Join(w.sites["a"].Dir, "volume", "mesh", "grid")
	if err := os.MkdirAll(filepath.Dir(grid), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(grid, []byte("42"), 0o600); err != nil {
		t.Fatal(err)
	}
	prep = w.submitOn(t, "a", spec.Job{Name: "prep", Nodes: 1, Volume: spec.Volume{Path: "/work"}})
	w.first = w.lock
	reading = w.submitOn(t, "b", spec.Job{
		Name: "model", Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: "prep", On: on}},
		Inputs: []spec.Input{{Earlier: spec.RunPath{Run: "prep", Path: "mesh"}, To: "/work/in"}},
	})
	return w, prep, reading
}

// lastOf returns the last attempt of a run.
func lastOf(t *testing.T, w *world, run state.Run) *state.Attempt {
	t.Helper()
	attempts, err := w.Store.Attempts(t.Context(), run.ID)
	if err != nil || len(attempts) == 0 {
		t.Fatalf("%d attempts, %v", len(attempts), err)
	}
	return &attempts[len(attempts)-1]
}

// TestALentVolume is kept for a run that reads it, over ends of controllers and sweeps, copied
// where both sites are on one machine, and released after the end of that run.
func TestALentVolume(t *testing.T) {
	w, prep, model := preparing(t, true, "")
	w.drive(t, prep, nil)
	if at := lastOf(t, w, prep); !at.LentToRuns() || !w.sites["a"].Yielded {
		t.Fatalf("the attempt is %s, %s", at.State, at.Verdict)
	}
	// As if a controller had died before the end of the run was on record, and another came.
	run, err := w.Store.Run(t.Context(), prep.ID)
	if err != nil {
		t.Fatal(err)
	}
	run.State = state.Running
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got := w.drive(t, prep, nil); got.State != state.Succeeded || !lastOf(t, w, prep).LentToRuns() {
			t.Fatalf("after its controller died, it is %s, and its attempt %s", got.State, lastOf(t, w, prep).State)
		}
	}
	over := run
	over.State = state.Succeeded
	if err := w.Garbage().Forget(t.Context(), over, gc.Leaving{OnlyCopies: true}); !core.IsKind(err, core.Busy) {
		t.Errorf("a run whose volume is read is removed: %v", err)
	}
	sites := controltest.Sites("a", "b")
	if found, err := w.Garbage().Sweep(t.Context(), sites, nil, gc.Sweeping{}); err != nil || len(found) > 0 {
		t.Errorf("a sweep finds %+v, %v", found, err)
	}
	if got := w.drive(t, model, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v", got)
	}
	if raw, err := os.ReadFile(filepath.Join(w.sites["b"].Dir, "volume", "in", "grid")); err != nil || string(raw) != "42" {
		t.Errorf("the run had %q, %v", raw, err)
	}
	came := controltest.EventsOf(t, w.Store, model.ID, event.KindRunInput)
	if len(came) != 1 || came[0].Fields.(event.RunInput) != (event.RunInput{Of: prep.ID, Name: "prep", Path: "mesh", Site: "a", To: "b", Transfer: event.TransferCopied}) {
		t.Errorf("its history has %+v", came)
	}
	if w.sites["b"].Staged.Remote != "" && filepath.Base(w.sites["b"].Staged.Remote) == "in" {
		t.Errorf("it came through this machine: %+v", w.sites["b"].Staged)
	}
	if list := controltest.EventsOf(t, w.Store, prep.ID, event.KindVolumeLent, event.KindVolumeReleased); len(list) != 1 {
		t.Errorf("its history has %+v, and its lock is held", list)
	}
}

// TestVolumesThatAreNotNeeded are released: with the run that reads them, whether it has begun
// or not, and at once where none can begin.
func TestVolumesThatAreNotNeeded(t *testing.T) {
	w, prep, _ := preparing(t, true, spec.AfterFailure)
	if w.drive(t, prep, nil); !lastOf(t, w, prep).Released() {
		t.Errorf("no run can read it, and it is %s", lastOf(t, w, prep).State)
	}
	for name, stops := range map[string]bool{"its reader is stopped": true, "its reader ends": false} {
		t.Run(name, func(t *testing.T) {
			w, prep, model := preparing(t, true, "")
			w.drive(t, prep, nil)
			stop := make(chan struct{})
			if stops {
				close(stop)
			}
			w.drive(t, model, stop)
			w.drive(t, prep, nil) // as the supervisor does, where this process could not lock it
			if !lastOf(t, w, prep).Released() {
				t.Errorf("it is %s", lastOf(t, w, prep).State)
			}
			w.nothingHeld(t)
		})
	}
}

// TestASiteThatKeepsNoFiles has what is read of a volume fetched, until no run needs it.
func TestASiteThatKeepsNoFiles(t *testing.T) {
	w, prep, model := preparing(t, false, "")
	w.drive(t, prep, nil)
	passed := filepath.Join(retention.PassedAt(w.Store.RunDir(prep.ID), "mesh"), "grid")
	if raw, err := os.ReadFile(passed); err != nil || string(raw) != "42" || !lastOf(t, w, prep).Released() {
		t.Fatalf("%v: it is %q, and the attempt %s", err, raw, lastOf(t, w, prep).State)
	}
	if got := w.drive(t, model, nil); got.State != state.Succeeded {
		t.Fatalf("got %+v", got)
	}
	if came := controltest.EventsOf(t, w.Store, model.ID, event.KindRunInput); len(came) != 1 || came[0].Fields.(event.RunInput).Transfer != event.TransferCollected {
		t.Errorf("its history has %+v", came)
	}
	// As if its controller had died before it removed what was fetched.
	if err := w.first.Unlock(); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		found, err := w.Garbage().Sweep(t.Context(), controltest.Sites("a", "b"), nil, gc.Sweeping{Dry: dry})
		if err != nil || len(found) != 1 || found[0] != (gc.Swept{Site: spec.StoreHome, Owner: prep.ID}) {
			t.Errorf("dry %v: a sweep finds %+v, %v", dry, found, err)
		}
		if _, err := os.Lstat(passed); os.IsNotExist(err) == dry {
			t.Errorf("dry %v: what was fetched is there: %v", dry, err)
		}
	}
}

// TestAReaderThatComesWhileFilesAreFetched has its own paths fetched, also if another one has ended
// meanwhile.
func TestAReaderThatComesWhileFilesAreFetched(t *testing.T) {
	w, prep, model := preparing(t, false, "")
	testkit.WriteFiles(t, w.sites["a"].Dir, map[string]string{"volume/late/grid": "43"})
	var once sync.Once
	w.sites["a"].OnFetch = func(remote string) {
		if filepath.Base(remote) != "mesh" {
			return
		}
		once.Do(func() {
			model.State = state.Stopped
			if err := w.Store.PutRun(t.Context(), model); err != nil {
				t.Error(err)
			}
			w.submitOn(t, "b", spec.Job{
				Name: "late", Nodes: 1, Volume: spec.Volume{Path: "/work"}, After: []spec.After{{Run: "prep"}},
				Inputs: []spec.Input{{Earlier: spec.RunPath{Run: "prep", Path: "late"}, To: "/work/in"}},
			})
		})
	}
	w.drive(t, prep, nil)
	if raw, err := os.ReadFile(filepath.Join(retention.PassedAt(w.Store.RunDir(prep.ID), "late"), "grid")); err != nil || string(raw) != "43" {
		t.Errorf("it has %q, %v", raw, err)
	}
}

// TestASweepLeavesLentVolumes to controllers: while it looks, a run may be submitted that reads one.
func TestASweepLeavesLentVolumes(t *testing.T) {
	w, prep, model := preparing(t, true, "")
	w.drive(t, prep, nil)
	w.drive(t, model, nil)
	if err := w.first.Unlock(); err != nil {
		t.Fatal(err)
	}
	if found, err := w.Garbage().Sweep(t.Context(), controltest.Sites("a", "b"), nil, gc.Sweeping{}); err != nil || len(found) > 0 || !lastOf(t, w, prep).LentToRuns() {
		t.Errorf("a sweep finds %+v, %v, and the attempt is %s", found, err, lastOf(t, w, prep).State)
	}
	if left, err := w.Garbage().Orphans(t.Context()); err != nil || !slices.Contains(left, prep.ID) {
		t.Errorf("controllers are wanted for %q, %v", left, err)
	}
	if w.drive(t, prep, nil); !lastOf(t, w, prep).Released() {
		t.Errorf("it is %s", lastOf(t, w, prep).State)
	}
	w.nothingHeld(t)
}

// TestAVolumeThatIsLost: the run that reads it fails, and names it. A path that is not in it, and
// one that leads out, too.
func TestAVolumeThatIsLost(t *testing.T) {
	for name, c := range map[string]struct {
		harm func(w *world) error
		kind core.Kind
	}{
		"its site has lost it": {func(w *world) error { w.sites["a"].Lost = true; return nil }, core.NotFound},
		"the path is not there": {func(w *world) error {
			return os.RemoveAll(filepath.Join(w.sites["a"].Dir, "volume", "mesh"))
		}, core.NotFound},
		"a link leads out": {func(w *world) error {
			mesh := filepath.Join(w.sites["a"].Dir, "volume", "mesh")
			if err := os.RemoveAll(mesh); err != nil {
				return err
			}
			return os.Symlink("/etc", mesh)
		}, core.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			w, prep, model := preparing(t, true, "")
			w.drive(t, prep, nil)
			if err := c.harm(w); err != nil {
				t.Fatal(err)
			}
			got := w.drive(t, model, nil)
			if got.State != state.Failed || got.Kind != c.kind.String() {
				t.Errorf("it is %s: %s %s", got.State, got.Kind, got.Message)
			}
		})
	}
}

// TestALinkInPlaceOfAnInput: a site that delivers a link in place of what it was asked for has no
// other file of the submitting machine sent to the next site.
func TestALinkInPlaceOfAnInput(t *testing.T) {
	w, prep, model := preparing(t, false, "")
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("s"), 0o600); err != nil {
		t.Fatal(err)
	}
	w.drive(t, prep, nil)
	passed := retention.PassedAt(w.Store.RunDir(prep.ID), "mesh")
	if err := os.RemoveAll(passed); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, passed); err != nil {
		t.Fatal(err)
	}
	if got := w.drive(t, model, nil); got.State != state.Failed || w.sites["b"].Staged.Local == secret {
		t.Errorf("it is %s, and its site was sent %q", got.State, w.sites["b"].Staged.Local)
	}
}
