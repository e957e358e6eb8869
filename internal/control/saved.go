package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/google/renameio/v2"
)

// readSaved reads what a checkpoint, which has been brought to the head, says of
// its virtual machines.
func (a *attempt) readSaved(ctx context.Context, k checkpoint.Kept, remote string) (*protocol.Saved, error) {
	local := filepath.Join(k.Volume(), protocol.SavedFile)
	if a.sub.Job.Store != "" {
		local = filepath.Join(a.c.Store.RunDir(a.run.ID), protocol.SavedFile)
		if err := a.lease.Fetch(ctx, driver.Transfer{Remote: path.Join(remote, protocol.SavedFile), Local: local}); err != nil {
			return nil, err
		}
	}
	s, err := parseSaved(local)
	if err == nil && s.Nodes != len(a.lease.Hosts()) {
		err = fmt.Errorf("it has %d virtual machines, and there are %d hosts", s.Nodes, len(a.lease.Hosts()))
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read checkpoint of run", Object: a.run.ID, Err: err}
	}
	return s, nil
}

func parseSaved(file string) (*protocol.Saved, error) {
	s := &protocol.Saved{}
	raw, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(raw, s)
	}
	return s, err
}

// savedImage is the image of the run's saved machines, where the cache has it:
// what the Beefile names may mean another one by now, or be gone.
func (d *drive) savedImage() (core.Image, bool) {
	if !d.sub.Job.SavesVM() {
		return core.Image{}, false
	}
	file := filepath.Join(d.c.Store.RunDir(d.run.ID), protocol.SavedFile) // of the one that was brought from a store last
	if d.sub.Job.Store == "" {
		list, err := checkpoint.List(d.c.checkpoints(d.run.ID))
		if err != nil || len(list) == 0 {
			return core.Image{}, false
		}
		file = filepath.Join(list[len(list)-1].Volume(), protocol.SavedFile)
	}
	s, err := parseSaved(file)
	if err != nil {
		return core.Image{}, false
	}
	return s.Image, d.c.Images.Has(s.Image.ID)
}

// exportName is the file that tells what run a directory of saved machines is
// of; the checkpoints lie beside it.
const exportName = "run.json"

// export is that file.
type export struct {
	Run        string     `json:"run"`
	Submission Submission `json:"submission"`
}

// Export saves a run's virtual machines into a directory, from which Import
// makes a run of them. fetch saves them, and brings their files into a
// directory. An earlier export of the run may lie there: the last two are kept.
func (c *Controller) Export(ctx context.Context, run state.Run, dir string, fetch func(into string) error) (Checkpoint, error) {
	_, rec, err := c.Live(ctx, run)
	if err != nil {
		return Checkpoint{}, err
	}
	sub, err := SubmissionOf(run)
	if err != nil {
		return Checkpoint{}, err
	}
	if before, err := readExport(dir); err == nil && before.Run != run.ID {
		return Checkpoint{}, &core.Error{Kind: core.Invalid, Op: "save virtual machines in", Object: dir, Err: errors.New("those of run " + before.Run + " are there"), Remedy: "Name another directory."}
	}
	g := checkpoint.Generation{Attempt: rec.N, Snapshot: 1}
	list, err := checkpoint.List(dir)
	if err != nil {
		return Checkpoint{}, err
	}
	if n := len(list); n > 0 && list[n-1].Attempt == rec.N {
		g.Snapshot = list[n-1].Snapshot + 1
	}
	raw, err := json.Marshal(export{run.ID, sub})
	if err != nil {
		return Checkpoint{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Checkpoint{}, err
	}
	if err := renameio.WriteFile(filepath.Join(dir, exportName), raw, 0o600); err != nil {
		return Checkpoint{}, err
	}
	m, _, err := checkpoint.Stepped{Dir: checkpoint.Dir(dir), Between: c.pause}.Keep(ctx, g, rec.Site,
		checkpoint.FetchFunc(func(volume, _ string) error { return fetch(volume) }))
	return Checkpoint{m.Attempt, m.Site, m.Taken, m.Took.Seconds(), len(m.Files), m.Bytes, dir}, err
}

func readExport(dir string) (export, error) {
	var e export
	raw, err := os.ReadFile(filepath.Join(dir, exportName))
	if err == nil {
		err = json.Unmarshal(raw, &e)
	}
	return e, err
}

// Import makes a run that goes on from what Export has saved last and is whole,
// on given sites; none: those of the run that it was. It needs a Drive.
func (c *Controller) Import(ctx context.Context, dir string, sites []spec.Site) (state.Run, *state.Lock, error) {
	e, err := readExport(dir)
	if err != nil {
		return state.Run{}, nil, &core.Error{Kind: core.NotFound, Op: "bring up virtual machines of", Object: dir, Err: err, Remedy: "Name a directory that `bee vm snapshot` has written."}
	}
	if e.Submission.Version != submissionVersion {
		return state.Run{}, nil, &core.Error{Kind: core.Unsupported, Op: "bring up virtual machines of", Object: dir,
			Err: fmt.Errorf("their run has version %d, this bee knows %d", e.Submission.Version, submissionVersion), Remedy: "Use the version of bee that saved them."}
	}
	// The same machines must not run twice: they would do the same things.
	if old, err := c.Store.Run(ctx, e.Run); err == nil && !old.State.Final() {
		return state.Run{}, nil, &core.Error{Kind: core.Busy, Op: "bring up virtual machines of", Object: dir, Err: fmt.Errorf("run %s, whose they are, is %s", old.ID, old.State),
			Remedy: "End it first: `bee stop " + old.ID + "`."}
	}
	list, err := checkpoint.List(dir)
	if err != nil {
		return state.Run{}, nil, err
	}
	for _, k := range slices.Backward(list) {
		if !k.Undamaged() {
			c.say(protocol.PhaseStage, "warning: what was saved at "+k.Manifest.Taken.Local().Format("2006-01-02 15:04:05")+" is damaged; what was saved before it is used")
			continue
		}
		if len(sites) > 0 {
			e.Submission.Sites = sites
		}
		return c.submit(ctx, e.Submission, func(id string) error {
			_, _, err := checkpoint.Stepped{Dir: checkpoint.Dir(c.checkpoints(id)), Between: c.pause}.Keep(ctx, checkpoint.Generation{Snapshot: 1}, k.Manifest.Site, checkpoint.Tree(k.Volume()))
			return err
		})
	}
	return state.Run{}, nil, &core.Error{Kind: core.NotFound, Op: "bring up virtual machines of", Object: dir, Err: errors.New("there is none that is whole")}
}
