package outputs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state/event"
	"golang.org/x/sync/errgroup"
)

// AtOnce is how many outputs travel at a time: each asks, and waits for the
// line there and back, before anything comes.
const AtOnce = 8

// Collect fetches what the outputs name. What cannot be fetched does not keep the others
// away. absent is why the run fails by outputs that were not there.
func (c *Collector) Collect(ctx context.Context, head string, r *protocol.Result) (absent *core.Error, err error) {
	list, refused := placed(c.collecting(), r.Outputs)
	if len(refused) > 0 {
		c.Site.Record(ctx, event.OutputsRefused{Site: c.Site.Name, Count: len(refused), First: refused[0]})
	}
	at, errs := make([]string, len(list)), make([]error, len(list))
	progress := c.fetchingAll(list)
	var g errgroup.Group
	g.SetLimit(AtOnce)
	for i, o := range list {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				o.remote = path.Join(head, o.remote)
				errs[i] = core.Caught(func() (err error) {
					at[i], err = c.fetchOutput(ctx, o, func(done int64) { progress(i, done) })
					return err
				})
			}
			return nil
		})
	}
	core.BestEffort(g.Wait()) // each has its own
	for i, o := range list {
		if errs[i] == nil {
			errs[i] = c.settle(ctx, at[i], o)
		}
		if errs[i] == nil {
			c.came(o.index)
		}
	}
	if ctx.Err() != nil {
		return nil, errors.Join(errs...)
	}
	absent, err = c.unmatched(ctx, head, r, list)
	return absent, errors.Join(append(errs, err)...)
}

// fetching returns a function that reports how much of something has arrived, of total
// bytes; 0: not known.
func (c *Collector) fetching(what string, total int64) func(done int64) {
	return c.Site.Progress(core.PhaseCollect, "fetching "+what, total)
}

// fetchingAll returns a function that reports how much of each output has arrived.
func (c *Collector) fetchingAll(list []output) func(i int, done int64) {
	if len(list) == 1 {
		progress := c.fetching(path.Base(list[0].remote), list[0].bytes)
		return func(_ int, done int64) { progress(done) }
	}
	total := int64(0)
	for _, o := range list {
		total += o.bytes
	}
	progress := c.fetching(fmt.Sprintf("%d outputs", len(list)), total)
	var mu sync.Mutex
	all, of := int64(0), make([]int64, len(list))
	return func(i int, done int64) {
		mu.Lock()
		defer mu.Unlock()
		all, of[i] = all+done-of[i], done
		progress(all)
	}
}

// unmatched reports outputs that were not there, or could not leave the volume. Where the
// job has succeeded, its volume has what is missing, and is kept; outputs that were not
// there make the run a failed one.
func (c *Collector) unmatched(ctx context.Context, head string, r *protocol.Result, came []output) (absent *core.Error, err error) {
	if r.Exit == nil || c.InGuest { // whose submitter knows what it wants
		return nil, nil
	}
	var missing []string
	for i, o := range c.Job.Outputs {
		if o.Optional || slices.ContainsFunc(came, func(c output) bool { return c.index == i }) {
			continue
		}
		if owed := c.Owed; owed != nil {
			if is, err := owed(ctx, i); err != nil {
				return nil, err
			} else if !is {
				continue
			}
		}
		missing = append(missing, o.From)
	}
	c.Attempt.Unmatched = missing
	for _, l := range r.Left {
		c.Attempt.Unmatched = append(c.Attempt.Unmatched, l.Path)
	}
	if len(missing)+len(r.Left) == 0 {
		return nil, nil
	}
	lacks := event.OutputsMissing{Missing: missing, More: max(0, len(r.Left)-namedLeft)}
	for _, l := range r.Left[:min(len(r.Left), namedLeft)] {
		lacks.Left = append(lacks.Left, event.LeftOutput{Path: l.Path, Why: l.Why})
	}
	if r.Exit.Code == 0 {
		volume := retention.UnnamedVolume(c.Dir)
		if err := c.KeepVolume(ctx, head, volume); err != nil && !core.IsKind(err, core.NotFound) {
			return nil, err
		}
		lacks.Volume = volume
		if len(missing) > 0 {
			absent = errNoOutput(c.Run.ID, missing, volume)
		}
	}
	c.Site.Record(ctx, lacks)
	return absent, nil
}

// namedLeft is how many things that stay in a volume are named.
const namedLeft = 5

// errNoOutput is the end of a run whose job has succeeded, and some of whose outputs are not
// there. volume is the directory with its volume.
func errNoOutput(run string, missing []string, volume string) *core.Error {
	return &core.Error{
		Kind: core.NotFound, Op: "collect outputs of run", Object: run,
		Err:    errors.New("the job has ended with code 0, and nothing was there of " + strings.Join(missing, ", ")),
		Remedy: "What the job wrote to its volume is in " + volume + ", until `bee rm --force " + run + "`. `optional: true` allows an output to be absent.",
	}
}
