package outputs

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// fetch collects a file or directory. A directory that is there already keeps
// what else it holds; what cannot be where something else is comes beside it, under
// its name and the run's.
func (c *Collector) fetch(ctx context.Context, o output) error {
	at, err := c.fetchOutput(ctx, o, c.fetching(path.Base(o.remote), o.bytes))
	if err != nil {
		return err
	}
	return c.settle(ctx, at, o)
}

// fetchOutput has an output come into its directory, under a name of its own.
func (c *Collector) fetchOutput(ctx context.Context, o output, progress func(done int64)) (at string, err error) {
	at = arriving(c.Run.ID, inputs.DirName(fmt.Sprint(o.index, " ", o.path)))
	if err := c.Within.Check(o.to); err != nil {
		return at, c.Failed(err)
	}
	return at, c.fetchAs(ctx, driver.Transfer{Remote: o.remote, Within: o.within, Seen: o.seen, Local: filepath.Join(o.to, at), Progress: progress})
}

// MostNamed is how many outputs of one directory are recorded by their names.
const MostNamed = 20

// arrived notes that an output is on the submitting machine.
func (c *Collector) arrived(to, name string) {
	to = c.placeShown(to)
	i := slices.IndexFunc(c.Attempt.Outputs, func(o state.Arrived) bool { return o.To == to })
	if i < 0 {
		i, c.Attempt.Outputs = len(c.Attempt.Outputs), append(c.Attempt.Outputs, state.Arrived{To: to})
	}
	o := &c.Attempt.Outputs[i]
	if o.Count++; o.Count <= MostNamed {
		o.Names = append(o.Names, name)
	}
}

// arrivals counts the outputs that are on the submitting machine.
func (c *Collector) arrivals() (count int) {
	for _, o := range c.Attempt.Outputs {
		count += o.Count
	}
	return count
}

func (c *Collector) came(index int) {
	if c.Came == nil {
		c.Came = map[int]bool{}
	}
	c.Came[index] = true
}

// namedBeside is how many files of one output that are beside others are named.
const namedBeside = 3

// settle moves a collected output from a name in its directory to its place there. It is on
// the disk then: the site's copy will be deleted.
func (c *Collector) settle(ctx context.Context, from string, o output) error {
	to, name := o.to, o.name
	root, err := c.Within.Open(to)
	if err != nil {
		return c.Failed(err)
	}
	defer root.Close()
	if err := root.Sync(ctx, from); err != nil {
		return c.Failed(err)
	}
	own, err := c.claimHidden(root, to, from, name)
	if err != nil {
		return c.Failed(err)
	}
	m := merger{root: root, suffix: "." + c.Run.ID, own: own, changed: map[string]bool{}, replace: o.replace, partial: o.partial}
	if m.writers, err = c.writers(ctx, root, name); err == nil {
		err = c.claimWritten(ctx, &m, from, name)
	}
	if err != nil {
		return c.Failed(err)
	}
	at, err := m.place(from, name)
	err = errors.Join(err, m.sync())
	for _, b := range m.beside[:min(len(m.beside), namedBeside)] {
		c.Site.Record(ctx, event.OutputRenamed{Path: root.Path(b.name), Unlike: b.unlike, Partial: o.partial && !b.unlike, More: max(0, len(m.beside)-namedBeside)})
	}
	if n := len(m.hidden); n > 0 {
		c.Site.Record(ctx, event.HiddenRenamed{Count: n, First: root.Path(m.hidden[0])})
	}
	if err != nil {
		return c.Failed(err)
	}
	c.arrived(to, at)
	return nil
}
