package control

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Foreign is how a record that another installation has written becomes a run here.
type Foreign struct {
	// Dir is where relative paths in it start, and what it may use without a question.
	Dir string
	// Sites returns those of this user that names mean; none: all of them.
	Sites func(names []string) ([]spec.Site, error)
	// Allow asks the user whether a job may do what leaves Dir, and fails where not.
	Allow func(reaches []spec.Reach) error
}

// TakeOver adopts, from a store, a run that another installation of bee has
// begun, whose machine is gone. It is given by its id or its name, and comes as a
// suspended run of this one: see Resume. The other installation is kept from
// continuing it. The store is not believed: see adopted. Busy: a run
// that is not over may write the same outputs.
func (c *Controller) TakeOver(ctx context.Context, store, word string, f Foreign) (state.Run, error) {
	place, err := c.OpenStore(store)
	if err != nil {
		return state.Run{}, err
	}
	defer place.Close()
	name, r, err := retention.Find(ctx, place, word)
	if err != nil {
		return state.Run{}, err
	}
	run, attempts, sub, err := adopted(r, f.Dir)
	if err != nil {
		return state.Run{}, err
	}
	if _, err := c.Store.Run(ctx, run.ID); !core.IsKind(err, core.NotFound) {
		return run, errors.Join(err, &core.Error{
			Kind: core.Invalid, Op: opTakeOver, Object: run.ID, Err: errors.New("it is known here already"),
			Remedy: "`bee resume " + run.ID + "` continues it.",
		})
	}
	list, err := place.Run(name).List(ctx)
	if err != nil {
		return run, err
	}
	if len(list) == 0 {
		return run, &core.Error{
			Kind: core.NotFound, Op: opTakeOver, Object: run.ID, Err: errors.New("it has no checkpoint in " + store),
			Remedy: "Submit its Beefile again.",
		}
	}
	sub.Job.Store, sub.StoreName, sub.SitesFile = "", name, "" // that was another machine's
	if err := submission.PlacesFree(ctx, c.Store, opTakeOver, &sub, run.ID); err != nil {
		return run, err
	}
	if err := allowed(&sub, f); err != nil {
		return run, err
	}
	sub.Job.Store = store
	if sub.Sites, err = f.Sites(nil); err != nil {
		return run, err
	}
	if run.Submission, err = json.Marshal(sub); err != nil {
		return run, err
	}
	run.Message = "taken over from " + store
	kept := c.Kept().Of(&run, sub.Job.Store, sub.StoreName)
	kept.Use(place)
	made, err := c.enter(ctx, run, &sub, kept, attempts, list)
	if err != nil {
		return run, errors.Join(err, made.remove(), c.Store.RemoveRun(context.WithoutCancel(ctx), run.ID))
	}
	return run, nil
}

// allowed confines the job of another installation's record to the directory of f, unless the user
// allows what leaves that.
func allowed(sub *submission.Submission, f Foreign) error {
	reaches := sub.Job.Reaches(f.Dir)
	if err := f.Allow(reaches); err != nil {
		return err
	}
	return sub.Confine(f.Dir, reaches)
}

// madeDir is a directory that this process has made, and that nothing else may be
// removed with; "": it has made none.
type madeDir string

// makeRunDir makes the directory of a run that is new here.
func makeRunDir(store *state.Store, run string) (madeDir, error) {
	dir := store.RunDir(run)
	err := os.MkdirAll(filepath.Dir(dir), 0o700)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err != nil {
		return "", &core.Error{Kind: core.Permanent, Op: "make the directory of run", Object: run, Err: err, Remedy: "If files of an earlier run are there, see what they are, and move them away."}
	}
	return madeDir(dir), nil
}

// remove removes what a run's directory has got since it was made.
func (d madeDir) remove() error {
	if d == "" {
		return nil
	}
	return fsutil.RemoveAll(string(d))
}

// mostLeft is how many attempts of another installation are noted that may hold something.
const mostLeft = 20

// enter records a run that is adopted, here and then in its store, which makes
// it this installation's. Its directory comes after the attempts: with it, each change
// writes all of them once more beside its files.
func (c *Controller) enter(ctx context.Context, run state.Run, sub *submission.Submission, kept *retention.Checkpoints, attempts []state.Attempt, list []driver.Checkpoint) (made madeDir, err error) {
	if _, err := c.Store.Write(ctx, state.Change{Run: &run, Admit: sub.Admits(opTakeOver, run.ID)}); err != nil {
		return "", err
	}
	left := 0
	for _, a := range attempts {
		if !a.Released() {
			if left++; left <= mostLeft {
				c.Record(ctx, run.ID, a.N, leftByOther(a))
			}
		}
		// What it may still hold somewhere is not ours to release.
		a.NoProgress = a.NoProgress && !a.Lost()
		a.Lease, a.State, a.Autostart, a.Result = nil, state.Closed, state.NoAutostart, state.NoResult
		if a.Verdict.Goes() || a.N == list[len(list)-1].Attempt { // the run continues, however that one ended
			a.Verdict = state.Continues
		} else {
			a.Verdict = state.Skipped
		}
		if err := c.Store.PutAttempt(ctx, a, false); err != nil {
			return "", err
		}
	}
	if more := left - mostLeft; more > 0 {
		c.Record(ctx, run.ID, 0, event.ForeignAttempts{Count: more})
	}
	if made, err = makeRunDir(c.Store, run.ID); err != nil {
		return "", err
	}
	if len(sub.Job.Notify) > 0 {
		if err := notify.Prepare(c.Store, run.ID); err != nil {
			return made, err
		}
	}
	if err := c.Store.PutRun(ctx, run); err != nil {
		return made, err
	}
	if err := kept.Believe(list); err != nil {
		return made, err
	}
	if err := kept.Remember(list); err != nil {
		return made, err
	}
	store, err := kept.Store()
	if err != nil {
		return made, err
	}
	return made, kept.Note(ctx, store)
}

// leftByOther is the event of an attempt that another installation has made, and had not
// released when it last wrote to the store.
func leftByOther(a state.Attempt) event.ForeignAttempt {
	f := event.ForeignAttempt{Site: a.Site, Leased: a.Lease != nil, Computes: a.Launched() && !a.Result.Reported()}
	for _, h := range a.Hosts {
		f.Hosts = append(f.Hosts, h.Name)
	}
	return f
}

// opTakeOver is the operation of TakeOver in its errors.
const opTakeOver = "take over run"
