package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"golang.org/x/sync/errgroup"
)

// unnamedDir is where a run's volume is kept whose outputs matched nothing.
const unnamedDir = "volume"

// UnnamedVolume is where the volume of a run lies at home that succeeded, and of
// which its outputs have named nothing.
func UnnamedVolume(runDir string) string { return filepath.Join(runDir, unnamedDir) }

// outputsAtOnce is how many outputs travel at a time: each asks, and waits for the
// line there and back, before anything comes.
const outputsAtOnce = 8

// fetchOutputs brings home what the outputs name. What cannot be had does not
// keep the others away.
func (a *attempt) fetchOutputs(ctx context.Context, head string, r *protocol.Result) error {
	list := placed(a.sub.Job.Outputs, r.Outputs)
	for i := range list {
		list[i].remote = path.Join(head, list[i].remote)
	}
	at, errs := make([]string, len(list)), make([]error, len(list))
	told := a.fetchingAll(list)
	places := make([]string, len(list))
	for i, o := range list {
		places[i] = o.local()
	}
	var g errgroup.Group
	g.SetLimit(outputsAtOnce)
	if _, _, found := overlap(places); found {
		g.SetLimit(1) // one would take the other's place
	}
	for i, o := range list {
		g.Go(func() error {
			if errs[i] = ctx.Err(); errs[i] == nil {
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
			errs[i] = a.place(ctx, at[i], o)
		}
	}
	if ctx.Err() != nil {
		return errors.Join(errs...)
	}
	return errors.Join(append(errs, a.unmatched(ctx, head, r))...)
}

// fetching gives what is told how much of something has come, of total bytes; 0: not known.
func (a *attempt) fetching(what string, total int64) func(done int64) {
	return a.c.toward(protocol.PhaseFetch, "fetching "+what, total)
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

// unmatched tells of outputs that were not there. Where a run has succeeded and
// none was, its volume holds all that it has computed, and is kept.
func (a *attempt) unmatched(ctx context.Context, head string, r *protocol.Result) error {
	if r.Exit == nil || a.sub.InGuest { // whose submitter knows what it wants
		return nil
	}
	var missing []string
	for i, o := range a.sub.Job.Outputs {
		if !slices.ContainsFunc(r.Outputs, func(m protocol.OutputMatch) bool { return m.Index == i }) {
			missing = append(missing, o.From)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	text := "warning: nothing was there of the outputs " + strings.Join(missing, ", ")
	if len(r.Outputs) == 0 && r.Exit.Code == 0 {
		volume := UnnamedVolume(a.c.Store.RunDir(a.run.ID))
		t := driver.Transfer{Remote: protocol.VolumeDir(head), Local: volume, Progress: a.fetching("the volume", 0)}
		if err := a.fetchAs(ctx, t); err != nil && !core.IsKind(err, core.NotFound) {
			return err
		}
		text += "; what the run has left in its volume is kept in " + volume + " until `bee rm`"
	}
	a.note(ctx, text)
	return nil
}

// output is one that comes home, into a directory that the job names.
type output struct {
	remote, to, name string
	bytes            int64 // 0: not known
}

func (o output) local() string { return filepath.Join(o.to, o.name) }

// placed gives outputs their places at home: below `to:` under their own names.
// Those that would have the same place have the directories before their names
// as well.
func placed(copies []spec.Copy, matches []protocol.OutputMatch) []output {
	list := make([]output, len(matches))
	sharing := map[string]int{}
	for i, m := range matches {
		o := copies[m.Index]
		name := path.Base(m.Path)
		if _, pattern := splitGlob(o.From); pattern == "" { // the volume itself has another name outside
			name = path.Base(o.From)
		}
		list[i] = output{m.Path, o.To, name, m.Bytes}
		sharing[list[i].local()]++
	}
	for i, m := range matches {
		if sharing[list[i].local()] > 1 {
			_, list[i].name, _ = strings.Cut(m.Path, "/") // below the volume, or the inputs
		}
	}
	return list
}

// fetch brings a file or directory home. A directory that is there already keeps
// what else it holds; what cannot be where something else is comes beside it, under
// its name and the run's.
func (a *attempt) fetch(ctx context.Context, o output) error {
	at, err := a.fetchOutput(ctx, o, a.fetching(path.Base(o.remote), o.bytes))
	if err != nil {
		return err
	}
	return a.place(ctx, at, o)
}

// fetchOutput has an output come to its place or, where something is already, beside it.
func (a *attempt) fetchOutput(ctx context.Context, o output, told func(done int64)) (at string, err error) {
	at = o.local()
	if _, err := os.Lstat(at); !errors.Is(err, fs.ErrNotExist) {
		at = filepath.Join(filepath.Dir(at), a.arriving(filepath.Base(at)))
	}
	return at, a.fetchAs(ctx, driver.Transfer{Remote: o.remote, Local: at, Progress: told})
}

// arriving is the name of what is on its way to where something is already.
func (a *attempt) arriving(name string) string { return ".bee-arriving-" + a.run.ID + "-" + name }

// picked is the name of a directory of which some is picked.
func (a *attempt) picked() string { return ".bee-fetch-" + a.run.ID }

// clearArrivals removes what has come of outputs of which no more will come.
func (a *attempt) clearArrivals() {
	for _, o := range a.sub.Job.Outputs {
		err := filestream.RemovePartials(o.To)
		err = errors.Join(err, filepath.WalkDir(o.To, func(name string, e fs.DirEntry, err error) error {
			if base := filepath.Base(name); err != nil || !strings.Contains(base, a.arriving("")) && base != a.picked() {
				return nil //nolint:nilerr // what cannot be read holds nothing of ours
			}
			if err := filestream.RemoveAll(name); err != nil || !e.IsDir() {
				return err
			}
			return fs.SkipDir
		}))
		if err != nil {
			a.c.Log.Warn("what has come of outputs could not be removed", "from", o.To, "err", err)
		}
	}
}

// place puts what has come home where it belongs, unless it is there.
func (a *attempt) place(ctx context.Context, at string, o output) error {
	if at != o.local() {
		return a.settle(ctx, at, o.to, o.name)
	}
	a.arrived(o.to, o.name)
	return nil
}

// namedOutputs is how many outputs of one directory are recorded by their names.
const namedOutputs = 20

// arrived notes that an output is at home.
func (a *attempt) arrived(to, name string) {
	i := slices.IndexFunc(a.rec.Outputs, func(o state.Arrived) bool { return o.To == to })
	if i < 0 {
		i, a.rec.Outputs = len(a.rec.Outputs), append(a.rec.Outputs, state.Arrived{To: to})
	}
	o := &a.rec.Outputs[i]
	if o.Count++; o.Count <= namedOutputs {
		o.Names = append(o.Names, name)
	}
}

// settle puts what has come home to its place.
func (a *attempt) settle(ctx context.Context, from, to, name string) error {
	place := filepath.Join(to, name)
	beside, err := merge(from, place, "."+a.run.ID)
	if err == nil {
		err = filestream.SyncDir(filepath.Dir(place))
	}
	for _, name := range beside {
		a.note(ctx, "warning: an output came to "+name+", as something else is where it belongs")
	}
	if err != nil {
		return a.fetchFailed(err)
	}
	a.arrived(to, name)
	return nil
}

// merge moves a file or directory to a place, whose directory the caller has
// written out. A directory that is there takes what
// the other holds. Where one is a directory and the other is not, nothing is
// replaced: it goes to its name with a suffix, and beside tells where.
func merge(from, to, suffix string) (beside []string, err error) {
	have, err := os.Lstat(from)
	if err != nil {
		return nil, err
	}
	there, err := os.Lstat(to)
	if err == nil && have.IsDir() && there.Mode()&fs.ModeSymlink != 0 { // its user's own, to another disk perhaps
		there, err = os.Stat(to)
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, os.Rename(from, to)
	case err != nil:
		return nil, err
	case have.IsDir() != there.IsDir():
		beside, err = merge(from, to+suffix, suffix)
		return append(beside, to+suffix), err
	case !have.IsDir():
		return nil, os.Rename(from, to)
	}
	return mergeDirs(from, to, have, suffix)
}

// mergeDirs does so with directories, and has what was moved into to written out.
func mergeDirs(from, to string, have fs.FileInfo, suffix string) (beside []string, err error) {
	entries, err := os.ReadDir(from)
	if err == nil && have.Mode()&0o300 != 0o300 { // a directory of results may be read-only
		err = os.Chmod(from, have.Mode()|0o300)
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		more, merr := merge(filepath.Join(from, e.Name()), filepath.Join(to, e.Name()), suffix)
		beside, err = append(beside, more...), errors.Join(err, merr)
	}
	if err == nil {
		err = errors.Join(filestream.SyncDir(to), os.Remove(from))
	}
	return beside, err
}
