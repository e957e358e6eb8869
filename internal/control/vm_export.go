package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/checkpoint"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/store"
)

// opRestore is the operation of Import in its errors.
const opRestore = "bring up virtual machines of"

// exportName is the file that names the run of a directory of saved machines; the
// checkpoints are beside it.
const exportName = "run.json"

// export is that file.
type export struct {
	Run        string                `json:"run"`
	Submission submission.Submission `json:"submission"`
	// Restored are the runs that were made of it, by any installation.
	Restored []string `json:"restored,omitempty"`
}

func (e export) write(dir string) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(dir, exportName), raw, 0o600)
}

// Export saves a run's virtual machines into a directory, from which Import
// makes a run of them. fetch saves them, and copies their files into a
// directory. dir may have an earlier export of the run: the last two are kept.
func (c *Controller) Export(ctx context.Context, run state.Run, dir string, fetch func(into string) error) (Checkpoint, error) {
	lease, rec, err := c.Live(ctx, run)
	if err != nil {
		return Checkpoint{}, err
	}
	lease.Disconnect()
	sub, err := submission.Of(run)
	if err != nil {
		return Checkpoint{}, err
	}
	if !sub.Job.SavesVM() { // before anything is written
		return Checkpoint{}, protocol.NothingToSave()
	}
	before, err := earlierExport(dir, run.ID)
	if err != nil {
		return Checkpoint{}, err
	}
	g := driver.Generation{Attempt: rec.N, Snapshot: 1}
	list, err := c.Kept().OpenDir(dir).List(ctx)
	if err != nil {
		return Checkpoint{}, err
	}
	if n := len(list); n > 0 && list[n-1].Attempt == rec.N {
		g.Snapshot = list[n-1].Snapshot + 1
	}
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = export{run.ID, sub, before.Restored}.write(dir)
	}
	if err != nil {
		return Checkpoint{}, noExport(dir, err)
	}
	m, _, err := c.Kept().OpenDir(dir).Keep(ctx, g, rec.Site,
		store.FetchFunc(func(volume, _ string) error { return fetch(volume) }))
	if err == nil {
		err = c.Kept().NoteExport(run.ID, m)
	}
	return retention.Describe(driver.Checkpoint{Manifest: m, Place: dir}), err
}

// earlierExport reads what Export has left in a directory of the run before, if it has:
// whatever else is there stays as it is.
func earlierExport(dir, run string) (export, error) {
	e, err := readExport(dir)
	if err == nil && e.Run == run {
		return e, nil
	}
	entries, missing := os.ReadDir(dir)
	switch {
	case errors.Is(missing, fs.ErrNotExist):
		return export{}, nil
	case missing != nil:
		return export{}, noExport(dir, missing)
	case err == nil && e.Run != "":
		return export{}, noExport(dir, errors.New("those of run "+e.Run+" are there"))
	case len(entries) > 0:
		return export{}, noExport(dir, errors.New("something else is there"))
	}
	return export{}, nil
}

func noExport(dir string, err error) error {
	return &core.Error{
		Kind: core.Invalid, Op: "save virtual machines in", Object: dir, Err: err,
		Remedy: "Name a directory that is not there yet, or is empty, or has what was saved of the run before.",
	}
}

func readExport(dir string) (export, error) {
	var e export
	raw, err := fsutil.ReadFile(dir, exportName, retention.MostRecord)
	if err == nil {
		err = core.DecodeJSON(raw, &e)
	}
	return e, err
}

// readForeign reads an export that anybody may have written, and what its submission is
// once it is checked.
func readForeign(dir string, f Foreign) (export, submission.Submission, error) {
	const op = opRestore
	fail := func(err error) (export, submission.Submission, error) { return export{}, submission.Submission{}, err }
	e, err := readExport(dir)
	if err != nil {
		return fail(&core.Error{Kind: core.NotFound, Op: op, Object: dir, Err: err, Remedy: "Name a directory that `bee vm snapshot` has written."})
	}
	if !state.IsID(e.Run) || len(e.Restored) > retention.MostAttempts || slices.ContainsFunc(e.Restored, func(id string) bool { return !state.IsID(id) }) {
		return fail(retention.ForeignError(retention.Plain(e.Run), errors.New("what names its runs are no ids")))
	}
	sub, err := e.Submission.Foreign(e.Run, f.Dir)
	if err != nil {
		return fail(err)
	}
	if !sub.Job.SavesVM() {
		return fail(&core.Error{Kind: core.Invalid, Op: op, Object: dir, Err: errors.New("its job has no virtual machines that are saved"), Remedy: "Name a directory that `bee vm snapshot` has written."})
	}
	return e, sub, nil
}

// Import makes a run that continues from the last whole checkpoint of an export, on sites
// of this user's: those that f chooses among the names of the run that it was. It needs a
// Drive. Busy: the machines run already, or may soon, or a run that is not over
// may write the same outputs. The export is not believed: its job
// is checked as one of a Beefile, and what leaves the current directory has to be allowed.
func (c *Controller) Import(ctx context.Context, dir string, f Foreign) (state.Run, *state.Lock, error) {
	fail := func(err error) (state.Run, *state.Lock, error) { return state.Run{}, nil, err }
	if _, _, err := readForeign(dir, f); err != nil {
		return fail(err)
	}
	held, err := state.LockSaved(dir)
	if err != nil {
		return fail(err)
	}
	defer held.Unlock()
	e, sub, err := readForeign(dir, f)
	if err != nil {
		return fail(err)
	}
	sub.Machines = sub.FirstRun(e.Run)
	if err := submission.Alone(ctx, c.Store, sub.Machines, ""); err != nil {
		return fail(&core.Error{Kind: core.Busy, Op: opRestore, Object: dir, Err: err})
	}
	if err := submission.PlacesFree(ctx, c.Store, opRestore, &sub, state.NewID()); err != nil {
		return fail(err)
	}
	names := make([]string, len(sub.Sites))
	for i, s := range sub.Sites {
		names[i] = s.Name
	}
	if sub.Sites, err = f.Sites(names); err != nil {
		return fail(err)
	}
	for _, id := range unknown(ctx, c.Store, append([]string{e.Run}, e.Restored...)) {
		c.ReportText(core.PhaseStage, "warning: run "+id+", which had these machines, is not known here; make sure that it is over wherever it was, for the same machines must not run twice")
	}
	list, err := c.Kept().OpenDir(dir).List(ctx)
	if err != nil {
		return fail(err)
	}
	for _, k := range slices.Backward(list) {
		if c.Kept().OpenDir(dir).Check(ctx, k) != nil {
			c.ReportText(core.PhaseStage, "warning: what was saved at "+k.Manifest.Taken.Local().Format("2006-01-02 15:04:05")+" is damaged; what was saved before it is used")
			continue
		}
		if err := checkMachines(k.Dir); err != nil {
			return fail(&core.Error{Kind: core.KindOf(err), Op: opRestore, Object: dir, Err: err, Remedy: core.Remedy(err)})
		}
		var reaches []spec.Reach
		if !submitted(ctx, c.Store, e.Run, sub.Job, f.Dir) { // else it is the user's own word
			reaches = sub.Job.Reaches(f.Dir)
			if err := sub.Confine(f.Dir, reaches); err != nil {
				return fail(err)
			}
		}
		if !c.Kept().Exported(e.Run, k) {
			reaches = append(reaches, spec.Reach{Key: "vm", Does: "loads into QEMU what this installation has not saved:", What: k.Place})
		}
		if err := f.Allow(reaches); err != nil {
			return fail(err)
		}
		return submission.Record(ctx, c.Store, opRestore, sub, func(id string) error {
			kept, _, err := c.Kept().OpenDir(c.Kept().Dir(id)).Keep(ctx, driver.Generation{Snapshot: 1}, retention.Plain(k.Manifest.Site), store.Tree(k.Dir))
			if err != nil {
				return err
			}
			if !store.Same(kept, k.Manifest) { // the user has agreed to what was there before
				return &core.Error{Kind: core.Invalid, Op: opRestore, Object: dir, Err: errors.New("it has changed while it was copied"), Remedy: "See who writes there, and try again."}
			}
			e.Restored = append(e.Restored, id)
			return e.write(dir)
		})
	}
	return fail(&core.Error{Kind: core.NotFound, Op: opRestore, Object: dir, Err: errors.New("there is none that is whole"), Remedy: "`bee vm snapshot` did not end well there: run it again while their run continues, or name another directory."})
}

// mostMachines bounds what is looked at of saved machines.
const mostMachines = 100000

// checkMachines refuses saved machines with disks that none has. What else is wrong with
// them, their node finds.
func checkMachines(dir string) error {
	s, err := checkpoint.ReadSaved(dir)
	if err != nil || s.Nodes < 1 || s.Nodes > mostMachines {
		return errors.Join(&core.Error{Kind: core.Invalid, Err: errors.New("it is not known whose machines these are"), Remedy: "Name a directory that `bee vm snapshot` has written."}, err)
	}
	for rank := range s.Nodes {
		var machine struct {
			Disks []struct {
				Serial string `json:"serial"`
			} `json:"disks"`
		}
		raw, err := fsutil.ReadFile(dir, filepath.Join(protocol.SavedPart("", rank), driver.SavedMachine), driver.MostSavedMachine)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = core.DecodeJSON(raw, &machine)
		}
		var serials []string
		for _, d := range machine.Disks {
			serials = append(serials, d.Serial)
		}
		if err = errors.Join(err, driver.CheckSavedDisks(serials)); err != nil {
			return &core.Error{Kind: core.Invalid, Object: fmt.Sprintf("machine of node %d", rank), Op: "read the", Err: err, Remedy: core.Remedy(err)}
		}
	}
	return nil
}

// unknown returns the runs of which this installation does not know whether they are over.
func unknown(ctx context.Context, store *state.Store, runs []string) (list []string) {
	for _, id := range runs {
		if _, err := store.Run(ctx, id); core.IsKind(err, core.NotFound) {
			list = append(list, id)
		}
	}
	return list
}

// submitted reports whether a run of this installation has a job, as it is read from a
// record.
func submitted(ctx context.Context, store *state.Store, run string, job spec.Job, dir string) bool {
	known, err := store.Run(ctx, run)
	if err != nil {
		return false
	}
	sub, err := submission.Of(known)
	if err != nil {
		return false
	}
	if sub, err = sub.Foreign(run, dir); err != nil {
		return false
	}
	a, aerr := json.Marshal(sub.Job)
	b, berr := json.Marshal(job)
	return aerr == nil && berr == nil && string(a) == string(b)
}
