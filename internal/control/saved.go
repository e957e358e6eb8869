package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/google/renameio/v2"
)

// readSaved reads what a checkpoint says of its virtual machines.
func readSaved(volume string, hosts int) (*protocol.Saved, error) {
	s := &protocol.Saved{}
	raw, err := os.ReadFile(filepath.Join(volume, protocol.SavedFile))
	if err == nil {
		err = json.Unmarshal(raw, s)
	}
	if err == nil && hosts > 0 && s.Nodes != hosts {
		err = fmt.Errorf("it has %d virtual machines, and there are %d hosts", s.Nodes, hosts)
	}
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read checkpoint", Object: volume, Err: err}
	}
	return s, nil
}

// savedImage is the image of the run's saved machines, where the cache has it:
// what the Beefile names may mean another one by now, or be gone.
func (d *drive) savedImage() (core.Image, bool) {
	if !d.sub.Job.SavesVM() {
		return core.Image{}, false
	}
	list, err := checkpoint.List(d.c.checkpoints(d.run.ID))
	if err != nil || len(list) == 0 {
		return core.Image{}, false
	}
	s, err := readSaved(list[len(list)-1].Volume(), 0)
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
	m, _, err := checkpoint.Keep(dir, g, rec.Site, func(volume, _ string) error { return fetch(volume) }, c.pause)
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
			_, _, err := checkpoint.Keep(c.checkpoints(id), checkpoint.Generation{Snapshot: 1}, k.Manifest.Site,
				func(volume, _ string) error { return filestream.Copy(ctx, k.Volume(), volume, nil) }, c.pause)
			return err
		})
	}
	return state.Run{}, nil, &core.Error{Kind: core.NotFound, Op: "bring up virtual machines of", Object: dir, Err: errors.New("there is none that is whole")}
}
