package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"golang.org/x/sync/errgroup"
)

// UnnamedVolume is where the volume of a run lies at home that succeeded, and of
// which its outputs have named nothing.
func UnnamedVolume(runDir string) string { return retention.UnnamedVolume(runDir) }

// outputsAtOnce is how many outputs travel at a time: each asks, and waits for the
// line there and back, before anything comes.
const outputsAtOnce = 8

// fetchOutputs brings home what the outputs name. What cannot be had does not
// keep the others away. absent is why the run fails by outputs that were not there.
func (a *attempt) fetchOutputs(ctx context.Context, head string, r *protocol.Result) (absent *core.Error, err error) {
	list, refused := placed(a.collecting(), r.Outputs)
	if len(refused) > 0 {
		a.event(ctx, event.OutputsRefused{Site: a.site.Name, Count: len(refused), First: refused[0]})
	}
	at, errs := make([]string, len(list)), make([]error, len(list))
	told := a.fetchingAll(list)
	var g errgroup.Group
	g.SetLimit(outputsAtOnce)
	for i, o := range list {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
				o.remote = path.Join(head, o.remote)
				errs[i] = core.Caught(func() (err error) {
					at[i], err = a.fetchOutput(ctx, o, func(done int64) { told(i, done) })
					return err
				})
			}
			return nil
		})
	}
	g.Wait() //nolint:errcheck // each has its own
	for i, o := range list {
		if errs[i] == nil {
			errs[i] = a.settle(ctx, at[i], o)
		}
	}
	if ctx.Err() != nil {
		return nil, errors.Join(errs...)
	}
	absent, err = a.unmatched(ctx, head, r, list)
	return absent, errors.Join(append(errs, err)...)
}

// fetching gives what is told how much of something has come, of total bytes; 0: not known.
func (a *attempt) fetching(what string, total int64) func(done int64) {
	return a.c.toward(core.PhaseCollect, "fetching "+what, total)
}

// fetchingAll gives what is told how much of each output has come.
func (a *attempt) fetchingAll(list []output) func(i int, done int64) {
	if len(list) == 1 {
		told := a.fetching(path.Base(list[0].remote), list[0].bytes)
		return func(_ int, done int64) { told(done) }
	}
	total := int64(0)
	for _, o := range list {
		total += o.bytes
	}
	told := a.fetching(fmt.Sprintf("%d outputs", len(list)), total)
	var mu sync.Mutex
	all, of := int64(0), make([]int64, len(list))
	return func(i int, done int64) {
		mu.Lock()
		defer mu.Unlock()
		all, of[i] = all+done-of[i], done
		told(all)
	}
}

// unmatched reports outputs that were not there, or could not leave the volume. Where the
// job has succeeded, its volume has what is missing, and is kept; outputs that were not
// there make the run a failed one.
func (a *attempt) unmatched(ctx context.Context, head string, r *protocol.Result, came []output) (absent *core.Error, err error) {
	if r.Exit == nil || a.sub.InGuest { // whose submitter knows what it wants
		return nil, nil
	}
	var missing []string
	for i, o := range a.sub.Job.Outputs {
		if !o.Optional && !slices.ContainsFunc(came, func(c output) bool { return c.index == i }) {
			missing = append(missing, o.From)
		}
	}
	a.rec.Unmatched = missing
	for _, l := range r.Left {
		a.rec.Unmatched = append(a.rec.Unmatched, l.Path)
	}
	if len(missing)+len(r.Left) == 0 {
		return nil, nil
	}
	lacks := event.OutputsMissing{Missing: missing, More: max(0, len(r.Left)-namedLeft)}
	for _, l := range r.Left[:min(len(r.Left), namedLeft)] {
		lacks.Left = append(lacks.Left, event.LeftOutput{Path: l.Path, Why: l.Why})
	}
	if r.Exit.Code == 0 {
		volume := UnnamedVolume(a.c.Store.RunDir(a.run.ID))
		if err := a.keepVolume(ctx, head, volume); err != nil && !core.IsKind(err, core.NotFound) {
			return nil, err
		}
		lacks.Volume = volume
		if len(missing) > 0 {
			absent = errNoOutput(a.run.ID, missing, volume)
		}
	}
	a.event(ctx, lacks)
	return absent, nil
}

// namedLeft is how many things that stay in a volume are named.
const namedLeft = 5

// output is one that comes home, into a directory that the job names.
type output struct {
	index        int    // in the job's outputs
	path, remote string // as it was matched, and as it is fetched
	to, name     string
	bytes        int64  // 0: not known
	replace      bool   // as in spec.Output
	within, seen string // as in driver.Transfer
	partial      bool   // a lost attempt has left it
}

func (o output) local() string { return filepath.Join(o.to, o.name) }

// placed gives outputs their places at home: below `to:` under their own names. Those
// that would have the same place have the directories before their names as well. What
// the job did not ask for is refused: whatever the site says, each match is one of the
// glob that it is said to match.
func placed(job *spec.Job, matches []protocol.OutputMatch) (list []output, refused []string) {
	inside := protocol.Plan{Volume: job.Volume.Path, Binds: inputs.Binds(job)}
	sharing, seen := map[string]int{}, map[protocol.OutputMatch]bool{}
	for _, m := range matches {
		key := protocol.OutputMatch{Index: m.Index, Path: m.Path}
		if !asked(inside, job.Outputs, m) || seen[key] {
			refused = append(refused, fmt.Sprintf("%.200q", m.Path))
			continue
		}
		seen[key] = true
		o := job.Outputs[m.Index]
		name := path.Base(m.Path)
		if _, pattern := splitGlob(o.From); pattern == "" { // the volume itself has another name outside
			name = path.Base(o.From)
		}
		list = append(list, output{index: m.Index, path: m.Path, remote: cmp.Or(m.From, m.Path), to: o.To, name: name, bytes: max(m.Bytes, 0), replace: o.Replace})
		sharing[list[len(list)-1].local()]++
	}
	for i, o := range list {
		if _, below, _ := strings.Cut(o.path, "/"); sharing[o.local()] > 1 && below != "" {
			list[i].name = below // the volume, or the inputs
		}
	}
	return list, refused
}

// asked reports whether a match is one of its glob.
func asked(inside protocol.Plan, outputs []spec.Output, m protocol.OutputMatch) bool {
	if m.Index < 0 || m.Index >= len(outputs) || path.Clean(m.Path) != m.Path || !filepath.IsLocal(m.Path) || m.From != "" && !filepath.IsLocal(m.From) {
		return false
	}
	root, pattern := inside.OnHost("", outputs[m.Index].From)
	if pattern == "" {
		return m.Path == root
	}
	name, is := inputs.Below(root, m.Path)
	if !is || root == "" {
		return false
	}
	is, err := fsutil.Match(path.Clean(pattern), name)
	return is && err == nil
}

// fetch brings a file or directory home. A directory that is there already keeps
// what else it holds; what cannot be where something else is comes beside it, under
// its name and the run's.
func (a *attempt) fetch(ctx context.Context, o output) error {
	at, err := a.fetchOutput(ctx, o, a.fetching(path.Base(o.remote), o.bytes))
	if err != nil {
		return err
	}
	return a.settle(ctx, at, o)
}

// fetchOutput has an output come into its directory, under a name of its own.
func (a *attempt) fetchOutput(ctx context.Context, o output, told func(done int64)) (at string, err error) {
	at = arriving(a.run.ID, shortSum(fmt.Sprint(o.index, " ", o.path)))
	if err := a.sub.confined().Check(o.to); err != nil {
		return at, a.fetchFailed(err)
	}
	return at, a.fetchAs(ctx, driver.Transfer{Remote: o.remote, Within: o.within, Seen: o.seen, Local: filepath.Join(o.to, at), Progress: told})
}

// namedOutputs is how many outputs of one directory are recorded by their names.
const namedOutputs = 20

// arrived notes that an output is at home.
func (a *attempt) arrived(to, name string) {
	to = a.placeShown(to)
	i := slices.IndexFunc(a.rec.Outputs, func(o state.Arrived) bool { return o.To == to })
	if i < 0 {
		i, a.rec.Outputs = len(a.rec.Outputs), append(a.rec.Outputs, state.Arrived{To: to})
	}
	o := &a.rec.Outputs[i]
	if o.Count++; o.Count <= namedOutputs {
		o.Names = append(o.Names, name)
	}
}

// namedBeside is how many files of one output that are beside others are named.
const namedBeside = 3

// settle moves a collected output from a name in its directory to its place there. It is on
// the disk then: the site's copy will be deleted.
func (a *attempt) settle(ctx context.Context, from string, o output) error {
	to, name := o.to, o.name
	root, err := a.sub.confined().Open(to)
	if err != nil {
		return a.fetchFailed(err)
	}
	defer root.Close()
	if err := root.Sync(ctx, from); err != nil {
		return a.fetchFailed(err)
	}
	own, err := a.claimHidden(root, to, from, name)
	if err != nil {
		return a.fetchFailed(err)
	}
	m := merger{root: root, suffix: "." + a.run.ID, own: own, changed: map[string]bool{}, replace: o.replace, partial: o.partial}
	if m.writers, err = a.writers(ctx, root, name); err == nil {
		err = a.claimWritten(ctx, &m, from, name)
	}
	if err != nil {
		return a.fetchFailed(err)
	}
	at, err := m.place(from, name)
	err = errors.Join(err, m.sync())
	for _, b := range m.beside[:min(len(m.beside), namedBeside)] {
		a.event(ctx, event.OutputRenamed{Path: root.Path(b.name), Unlike: b.unlike, Partial: o.partial && !b.unlike, More: max(0, len(m.beside)-namedBeside)})
	}
	if n := len(m.hidden); n > 0 {
		a.event(ctx, event.HiddenRenamed{Count: n, First: root.Path(m.hidden[0])})
	}
	if err != nil {
		return a.fetchFailed(err)
	}
	a.arrived(to, at)
	return nil
}
