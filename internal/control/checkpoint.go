package control

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/checkpoint"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// checkpointsDir, below a run's directory, is where its checkpoints lie.
const checkpointsDir = "checkpoints"

func (c *Controller) checkpoints(run string) string {
	return filepath.Join(c.Store.RunDir(run), checkpointsDir)
}

// keep brings home as a checkpoint what an attempt has left: its volume, or its
// machines.
func (a *attempt) keep(ctx context.Context, r *protocol.Result) error {
	dir := a.lease.Hosts()[0].Dir
	if r.Snapshot > 0 {
		return a.keepAs(ctx, 0, protocol.SnapshotDir(dir, r.Snapshot))
	}
	return a.keepAs(ctx, 0, protocol.VolumeDir(dir))
}

// bring does so, and notes how long it took: the next attempt leaves as much of
// its slot for it. A site that took its hosts back meanwhile wants more.
func (a *attempt) bring(ctx context.Context, r *protocol.Result) error {
	begun := time.Now()
	err := a.keep(ctx, r)
	took := time.Since(begun)
	switch {
	case err == nil:
		a.rec.Bringing = max(a.rec.Bringing, took)
	case core.IsKind(err, core.Lost) || core.IsKind(err, core.NotFound):
		a.rec.Bringing = max(a.rec.Bringing, 2*took)
	}
	return errors.Join(err, a.put(context.WithoutCancel(ctx)))
}

// keepSnapshot does the same with what the head has kept meanwhile.
func (a *attempt) keepSnapshot(ctx context.Context, n int) error {
	return a.keepAs(ctx, n, protocol.SnapshotDir(a.lease.Hosts()[0].Dir, n))
}

func (a *attempt) keepAs(ctx context.Context, snapshot int, remote string) error {
	a.keeping.Lock()
	defer a.keeping.Unlock()
	m, made, err := checkpoint.Keep(a.c.checkpoints(a.run.ID), checkpoint.Generation{Attempt: a.rec.N, Snapshot: snapshot}, a.site.Name,
		func(volume, before string) error {
			return a.fetchAs(ctx, driver.Transfer{Remote: remote, Local: volume, Again: true, Before: before})
		}, a.c.pause)
	if made {
		a.c.say(protocol.PhaseFetch, fmt.Sprintf("checkpoint of attempt %d is at home: %d files", a.rec.N, len(m.Files)))
	}
	return err
}

// Checkpoint is one that a run has at home, for people.
type Checkpoint struct {
	Attempt int       `json:"attempt"`
	Site    string    `json:"site"`
	Taken   time.Time `json:"taken"`
	// Seconds is how long it took to bring it home.
	Seconds float64 `json:"seconds"`
	Files   int     `json:"files"`
	Bytes   int64   `json:"bytes"`
	Path    string  `json:"path"`
}

// Checkpoints lists those that a run has at home, oldest first.
func (c *Controller) Checkpoints(run string) ([]Checkpoint, error) {
	list, err := checkpoint.List(c.checkpoints(run))
	var out []Checkpoint
	for _, k := range list {
		m := k.Manifest
		out = append(out, Checkpoint{m.Attempt, m.Site, m.Taken, m.Took.Seconds(), len(m.Files), m.Bytes, k.Volume()})
	}
	return out, err
}

// latest gives the volume of the newest checkpoint that is undamaged, or "".
func (a *attempt) latest(ctx context.Context) (string, error) {
	list, err := checkpoint.List(a.c.checkpoints(a.run.ID))
	for _, k := range slices.Backward(list) {
		if k.Undamaged() {
			return k.Volume(), nil
		}
		a.note(ctx, fmt.Sprintf("warning: the checkpoint of attempt %d is damaged and not used", k.Attempt))
	}
	if len(list) > 0 {
		a.note(ctx, "warning: no checkpoint is undamaged; the run begins anew")
	}
	return "", err
}

// progressed tells whether this attempt's checkpoint differs from the newest of
// the attempts before it in what a checkpoint consists of. A job that only
// writes the same again would go round for ever.
func (a *attempt) progressed() (bool, error) {
	list, err := checkpoint.List(a.c.checkpoints(a.run.ID))
	if err != nil {
		return true, err
	}
	before := slices.DeleteFunc(slices.Clone(list), func(k checkpoint.Kept) bool { return k.Attempt >= a.rec.N })
	if len(before) == 0 {
		return true, nil
	}
	files := func(of []checkpoint.Kept) map[string]string { return only(of[len(of)-1].Manifest.Files, &a.sub.Job) }
	return !maps.Equal(files(before), files(list)), nil
}

// only picks the files that the job's `checkpoint.paths` name.
func only(files map[string]string, job *spec.Job) map[string]string {
	if len(job.Checkpoint.Paths) == 0 {
		return files
	}
	picked := map[string]string{}
	for name, sum := range files {
		inside := path.Join(job.Volume, name)
		for _, pattern := range job.Checkpoint.Paths {
			if ok, err := path.Match(pattern, inside); err == nil && ok || strings.HasPrefix(inside, strings.TrimSuffix(pattern, "/")+"/") || inside == pattern {
				picked[name] = sum
			}
		}
	}
	return picked
}

// lostInARow is how many attempts may be lost without a new checkpoint before a
// run waits for its user: something is wrong with the sites, or with the job.
const lostInARow = 10

// moved is the outcome of an attempt whose checkpoint is at home.
func (a *attempt) moved(ctx context.Context, r *protocol.Result) (outcome, bool, error) {
	if a.sub.Job.Checkpoint == nil || a.stopAsked() {
		return outcome{}, false, nil
	}
	if r.Continue {
		further, err := a.progressed()
		if err != nil {
			return outcome{}, false, err
		}
		if !further {
			return outcome{state: state.Failed, err: &core.Error{Kind: core.Permanent, Op: "go on from the checkpoint of run", Object: a.run.ID,
				Err:    errors.New("the last attempt changed nothing in it"),
				Remedy: "Does the job write its checkpoint on the signal, within `checkpoint.grace`, and does `resume:` read it? Is the site's slot long enough?"}}, true, nil
		}
		return outcome{moved: true, err: errors.New("the job has saved itself; the run goes on from its checkpoint")}, true, nil
	}
	if core.KindNamed(r.Kind) != core.Lost || r.Exit != nil {
		return outcome{}, false, nil
	}
	list, err := checkpoint.List(a.c.checkpoints(a.run.ID))
	if err != nil || len(list) == 0 {
		return outcome{}, false, err
	}
	lost, err := a.launchedSince(ctx, list[len(list)-1].Attempt)
	if err != nil {
		return outcome{}, false, err
	}
	if lost > lostInARow {
		return outcome{state: state.Suspended, err: &core.Error{Kind: core.Lost, Op: "go on from the checkpoint of run", Object: a.run.ID,
			Err:    fmt.Errorf("%d attempts were lost since, the last one so: %s", lostInARow, r.Message),
			Remedy: "Its checkpoint is at home. `bee show " + a.run.ID + "` tells how each was lost; `bee resume " + a.run.ID + "` goes on."}}, true, nil
	}
	return outcome{moved: true, err: errors.New(r.Message + "; the run goes on from its last checkpoint")}, true, nil
}

// launchedSince counts the attempts after one that got as far as their hosts;
// those that a site did not take say nothing.
func (a *attempt) launchedSince(ctx context.Context, n int) (int, error) {
	attempts, err := a.c.Store.Attempts(ctx, a.run.ID)
	count := 0
	for _, rec := range attempts {
		if rec.N > n && rec.Launched {
			count++
		}
	}
	return count, err
}

// lastSnapshot brings home what the head of a lost attempt has kept last, where
// it can still be reached.
func (a *attempt) lastSnapshot(ctx context.Context) {
	if c := a.sub.Job.Checkpoint; c == nil || c.Every == 0 && !a.sub.Job.SavesVM() || len(a.lease.Hosts()) == 0 {
		return
	}
	newest := 0
	a.journalled(ctx, func(e protocol.Event) bool { //nolint:errcheck // then there is none
		newest = max(newest, e.Snapshot)
		return false
	})
	if newest == 0 {
		return
	}
	if err := a.keepSnapshot(ctx, newest); err != nil {
		a.c.say(protocol.PhaseFetch, fmt.Sprintf("the last checkpoint that site %s has kept cannot be had: %v", a.site.Name, err))
	}
}

// stageCheckpoint brings a checkpoint to the head as its volume, or for its
// machines.
func (a *attempt) stageCheckpoint(ctx context.Context, head core.Host, volume string) error {
	remote := protocol.VolumeDir(head.Dir)
	if a.saved != nil {
		remote = protocol.RestoreDir(head.Dir)
	}
	return a.lease.Stage(ctx, driver.Transfer{Local: volume, Remote: remote, Progress: func(done int64) {
		a.progress(protocol.PhaseStage)("bringing the checkpoint", done, 0)
	}})
}
