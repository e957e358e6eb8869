package burst

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/generation"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// generationRemote is the remote as checkpoints use it: the drain's, which may have faults, and what that
// does not need.
type generationRemote struct {
	drain.Remote
	tree remote.Remote
}

func (r generationRemote) List(dir string) ([]remote.Entry, error)  { return r.tree.List(dir) }
func (r generationRemote) Open(name string) (remote.Source, error)  { return r.tree.Open(name) }
func (r generationRemote) Keep(a, b string, v remote.Version) error { return r.tree.Keep(a, b, v) }

// begins brings the remote back to the checkpoint of a number, or to a newer one, before anything of a
// new volume is drained; 0: to that with which the run began.
func (v *Volume) begins(ctx context.Context, number int) error {
	g := v.drainer.generations
	if g == nil || v.journal.state.Generation() > 0 {
		return nil
	}
	now, conflicts, err := g.Start(ctx, number)
	if err != nil {
		return err
	}
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	_, err = v.journal.change(meta.Change{Do: meta.DoGeneration, Ino: meta.Root, Number: now, Found: found(conflicts), Time: time.Now().UnixNano()})
	if err == nil {
		err = v.journal.log.Sync(v.journal.log.Last()) // there are no copies yet
	}
	return err
}

func found(conflicts []generation.Conflict) (list []meta.Conflict) {
	for _, c := range conflicts {
		list = append(list, meta.Conflict{Path: c.Path, As: c.As, What: meta.Barrier, Time: time.Now().UnixNano()})
	}
	return list
}

// Checkpoint queues a checkpoint of everything that was written so far, and returns its number. Nothing that
// is written later reaches the remote before it. also are names that belong to it beside those that match.
// quiet refuses one while any of it was changed just before.
func (v *Volume) Checkpoint(also []string, quiet bool) (int, error) {
	v.journal.mu.Lock()
	defer v.journal.mu.Unlock()
	if v.drainer.generations == nil {
		return 0, &core.Error{Kind: core.Unsupported, Op: "take a checkpoint of volume", Object: v.o.ID, Err: errors.New("it is not that of a run with `checkpoint:`"), Remedy: "Add `checkpoint:` to the Beefile."}
	}
	if quiet {
		if name := v.restless(also); name != "" {
			return 0, &core.Error{Kind: core.Busy, Op: "take a checkpoint of volume", Object: v.o.ID, Err: fmt.Errorf("%q was just changed", name), Remedy: core.RemedyAgain}
		}
	}
	if err := v.journal.putAll(func(*meta.Node) bool { return true }); err != nil {
		return 0, err
	}
	number := v.journal.state.Barrier() + 1
	seq, err := v.journal.change(meta.Change{Do: meta.DoBarrier, Ino: meta.Root, Number: number, Also: also, Time: now()})
	v.journal.report()
	if err == nil {
		err = v.journal.log.Sync(seq)
	}
	return number, err
}

// quietFor is how long what belongs to a checkpoint must not have changed.
const quietFor = time.Second

// restless names something of a checkpoint that was changed just before; "": nothing was. Callers hold the
// lock.
func (v *Volume) restless(also []string) (name string) {
	v.journal.state.Nodes(func(n *meta.Node) {
		if name != "" || n.Stays || n.Ino == meta.Root || !n.Linked() || time.Since(time.Unix(0, n.Ctime)) >= quietFor {
			return
		}
		if at := v.journal.state.Path(n); at != "" && generation.Belongs(v.o.Globs, also, at) {
			name = at
		}
	})
	return name
}

// record carries out the first operation of the queue, which is a checkpoint.
func (d *drainer) record(ctx context.Context, j *drain.Job) error {
	if err := d.journal.sync(ctx); err != nil {
		return err
	}
	if err := d.generations.Record(ctx, j.Op.Number, j.Op.Also); err != nil {
		return err
	}
	d.journal.mu.Lock()
	defer d.journal.mu.Unlock()
	d.journal.working = 0
	_, err := d.journal.change(meta.Change{Do: meta.DoDone, Ino: j.Op.Ino, Time: now()})
	d.journal.report()
	return err
}

// touch notes what the first operation of the queue changes of the newest checkpoint.
func (d *drainer) touch(ctx context.Context, j *drain.Job) error {
	if d.generations == nil {
		return nil
	}
	touches, err := j.Touches(d.names.tree.List)
	if err != nil {
		return err
	}
	return d.generations.Touch(ctx, touches)
}
