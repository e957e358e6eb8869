package control

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/bee-hpc/bee/internal/treesync"
)

// logTimeout bounds how long nodes' logs are waited for.
const logTimeout = 5 * time.Second

// OutputLog is where the output of an attempt lies at home once it is over.
func OutputLog(runDir string, attempt int) string {
	return filepath.Join(runDir, fmt.Sprintf("output-%d.log", attempt))
}

// NodeLog is where the log of an attempt's node lies at home.
func NodeLog(runDir string, attempt, rank int) string {
	return filepath.Join(runDir, fmt.Sprintf("node-%d-%d.log", attempt, rank))
}

// NodeLogRank is the rank in whose log the words of a node are: those of one
// host write to that of its first.
func NodeLogRank(job *spec.Job, rank int) int { return rank - rank%job.NodesPerHost() }

// collect brings home the output, the nodes' logs and the job's outputs. Only
// when it has succeeded may the lease be released: until then the site holds
// the only copy. absent is why the run fails by outputs that were not there.
func (a *attempt) collect(ctx context.Context, r *protocol.Result) (absent *core.Error, err error) {
	err = a.timed(ctx, core.PhaseCollect, func() error {
		home := a.c.Store.RunDir(a.run.ID)
		var logs sync.WaitGroup
		logs.Go(func() { a.guard(func() { a.fetchLogs(ctx, home) }) })
		defer logs.Wait()
		head := a.lease.Hosts()[0].Dir
		log := driver.Transfer{Remote: protocol.OutputPath(head), Local: OutputLog(home, a.rec.N)}
		if err := a.transfers().Retry(ctx, func() error { return fetchFile(ctx, a.lease, log, 0) }); err == nil {
			if err := fsutil.SyncTree(ctx, log.Local); err != nil {
				return a.fetchFailed(err)
			}
		} else if !errors.As(err, new(invalidReport)) && !core.IsKind(err, core.NotFound) {
			return a.fetchFailed(err)
		}
		a.rec.Outputs, absent = nil, nil // an earlier try may have brought some
		if a.doesWithout(ctx) {
			a.c.clearArrivals(&a.sub, a.run.ID)
			a.event(ctx, event.OutputsSkipped{})
			return nil
		}
		collect := func() (err error) { absent, err = a.fetchOutputs(ctx, head, r); return err }
		if r.Outputs == nil && r.Exit == nil {
			collect = func() error { return a.salvage(ctx, head) }
		}
		if err := collect(); err != nil {
			return err
		}
		return a.sendOutputs(ctx)
	})
	if err != nil {
		if ctx.Err() == nil {
			a.event(ctx, event.CollectFailed{Cause: event.CauseOf(err)})
		}
		return nil, err
	}
	if a.lends(ctx) {
		a.on(machinery.Lent)
	} else {
		a.on(machinery.Collected)
	}
	if absent != nil {
		a.blame(outcome{err: absent})
		a.rec.Verdict = state.NotContinued
	}
	// On a site of this machine, too: what it has is removed next.
	return absent, a.write(context.WithoutCancel(ctx), true)
}

// waitForSite has something brought home. Where the site stops answering, and the run
// can go on without what is left there, it is waited for; errAway: without success.
func (a *attempt) waitForSite(ctx context.Context, bring func() error) error {
	begun := time.Now()
	for pause := firstLook; ; pause = min(2*pause, laterLook) {
		err := bring()
		if err == nil || ctx.Err() != nil || !unreached(err) { // what is wrong may be here
			return err
		}
		_, serr := a.lease.Status(ctx)
		if serr == nil {
			return err
		}
		if a.declaredLost(ctx) {
			return errAway
		}
		if is, derr := a.dispensable(ctx); !unsure(derr, begun) {
			if !is || derr != nil {
				return errors.Join(err, derr)
			}
			if lost, terr := a.overdue(ctx, serr); terr != nil {
				return terr
			} else if lost {
				return errAway
			}
		}
		if serr := core.Sleep(ctx, pause); serr != nil {
			return serr
		}
	}
}

// unreached tells whether an error may be that the site does not answer.
func unreached(err error) bool {
	return core.IsKind(err, core.Transient) || core.IsKind(err, core.Lost)
}

// fetchLogs brings the nodes' logs home, as far as they can be had soon: a
// host that is gone takes its log along.
func (a *attempt) fetchLogs(ctx context.Context, home string) {
	ctx, cancel := context.WithTimeout(ctx, logTimeout)
	defer cancel()
	var wg sync.WaitGroup
	gate := make(chan struct{}, 16)
	for _, host := range a.lease.Hosts() {
		gate <- struct{}{}
		wg.Go(func() {
			a.guard(func() {
				defer func() { <-gate }()
				rank := host.Index * a.sub.Job.NodesPerHost()
				fetchFile(ctx, a.lease, driver.Transfer{Host: host.Index, Remote: protocol.NodeLogPath(host.Dir, rank), Local: NodeLog(home, a.rec.N, rank)}, maxNodeLog) //nolint:errcheck // see above
			})
		})
	}
	wg.Wait()
}

// salvage fetches what the outputs match when the head died before it could
// list them: the directory before the first wildcard comes home, and what
// matches is kept.
func (a *attempt) salvage(ctx context.Context, head string) error {
	taken := map[string]bool{}
	inImage, err := a.salvageImage(ctx, head, taken)
	if err != nil {
		return err
	}
	job := a.collecting()
	inside := protocol.Plan{Volume: job.Volume.Path, Binds: inputs.Binds(job)}
	for i, out := range job.Outputs {
		root, rel := inside.OnHost(head, out.From)
		if root == "" || inImage && root == protocol.VolumeDir(head) {
			continue
		}
		fixed, pattern := splitGlob(rel)
		within, seen := root, path.Clean("/"+strings.TrimSuffix(path.Clean(out.From), rel))
		if pattern == "" {
			err = a.fetch(ctx, output{index: i, path: rel, remote: path.Join(root, fixed), within: within, seen: seen, to: out.To, name: unused(taken, out.To, path.Base(out.From), fixed), replace: out.Replace, partial: true})
		} else {
			fetch := func(name, into string) error {
				return a.fetchAs(ctx, driver.Transfer{Remote: path.Join(root, fixed, name), Within: within, Seen: seen, Local: into, Progress: a.fetching(out.From, 0)})
			}
			err = a.pick(ctx, picking{out.To, out.From, pattern, taken, out.Replace, fetch}, func(into string) error {
				err := fetch("", into)
				if core.IsKind(err, core.NotFound) {
					return nil
				}
				return err
			})
		}
		switch {
		case errors.Is(err, errLeadsOut):
			a.event(ctx, event.DanglingLinks{From: out.From, Count: 1, First: fixed})
		case err != nil && !core.IsKind(err, core.NotFound):
			return err
		}
	}
	return nil
}

// errLeadsOut is the cause where a link of the job's leads out of its volume, or to nothing.
var errLeadsOut = errors.New("a link leads out of the volume, or to nothing in it")

// ledOut names that cause in an error of Fetch.
func ledOut(t driver.Transfer, err error) error {
	if t.Within != "" && core.IsKind(err, core.Invalid) {
		return fmt.Errorf("%w: %w", errLeadsOut, err)
	}
	return err
}

// unused returns a name for an output in a directory that no other output there has: its own
// one, or else the longer one.
func unused(taken map[string]bool, to, name, longer string) string {
	if taken[path.Join(to, name)] && longer != "" {
		name = longer
	}
	taken[path.Join(to, name)] = true
	return name
}

// picking is an output of which a directory travels, and some is picked from that.
type picking struct {
	to, from string          // as in the job
	pattern  string          // below the directory; "": all of it
	taken    map[string]bool // names that earlier outputs have, see unused
	replace  bool            // as in spec.Output
	// elsewhere fetches the target of a link that lies outside of the directory in the
	// volume; nil: all of the volume was fetched.
	elsewhere func(name, into string) error
}

// pick has fill bring the directory of an output home, and puts what its pattern matches
// to its place; all of it where there is no pattern. Links lead to what they lead to in
// that directory; one that leads to nothing there is reported and stays behind.
func (a *attempt) pick(ctx context.Context, p picking, fill func(into string) error) error {
	if err := a.sub.confined().Check(p.to); err != nil {
		return a.fetchFailed(err)
	}
	if err := fsutil.MkdirAll(p.to, 0o777); err != nil {
		return a.fetchFailed(err)
	}
	root, err := a.sub.confined().Open(p.to)
	if err != nil {
		return a.fetchFailed(err)
	}
	defer root.Close()
	temp := picked(a.run.ID) // left by a process that was killed, perhaps
	if err := errors.Join(root.RemoveAll(temp), root.Mkdir(temp, 0o700)); err != nil {
		return a.fetchFailed(err)
	}
	defer root.RemoveAll(temp) //nolint:errcheck // the next attempt removes it
	seen, _ := splitGlob(p.from)
	name, staged, linked := path.Join(temp, "tree", path.Base(seen)), path.Join(temp, "staged"), path.Join(temp, "linked")
	if err := errors.Join(root.Mkdir(path.Dir(name), 0o700), root.Mkdir(staged, 0o700), root.Mkdir(linked, 0o700)); err != nil {
		return a.fetchFailed(err)
	}
	if err := fill(root.Path(name)); err != nil {
		return a.fetchFailed(err)
	}
	if p.pattern == "" {
		return a.settle(ctx, name, p.place(path.Base(name), ""))
	}
	tree, err := root.Sub(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return a.fetchFailed(err)
	}
	defer tree.Close()
	tree.Seen = seen
	matches, err := tree.Glob(p.pattern)
	if err != nil {
		return a.fetchFailed(err)
	}
	found, lost := resolved(tree, matches)
	if p.elsewhere != nil {
		found, lost, err = fetchLinked(tree, found, lost, func(name, as string) error { return p.elsewhere(name, root.Path(path.Join(linked, as))) })
		if err != nil {
			return err
		}
	}
	if len(lost) > 0 {
		a.event(ctx, event.DanglingLinks{From: p.from, Count: len(lost), First: lost[0]})
	}
	stage, err1 := root.Sub(staged)
	others, err2 := root.Sub(linked)
	if err := errors.Join(err1, err2); err != nil {
		return a.fetchFailed(err)
	}
	defer stage.Close()
	defer others.Close()
	lacks := event.OutputsMissing{}
	prepare := func(m match, as string) (at string, err error) {
		o, from := treesync.Outputs{In: tree, Stage: stage, Left: func(name string, why treesync.Why) {
			if lacks.More++; lacks.More <= namedLeft {
				lacks.Left = append(lacks.Left, event.LeftOutput{Path: name, Why: string(why)})
			}
		}}, name
		if m.elsewhere {
			o.In, from = others, linked
		}
		is, apart, err := o.Prepare(ctx, m.is, as)
		switch {
		case err != nil || is == "":
			return "", err
		case apart:
			from = staged
		}
		return path.Join(from, is), nil
	}
	sharing := map[string]int{}
	for _, m := range found {
		sharing[path.Base(m.name)]++
	}
	for i, m := range found {
		as := path.Base(m.name)
		if sharing[as] > 1 {
			as = m.name
		}
		at, perr := prepare(m, strconv.Itoa(i))
		if perr != nil {
			err = errors.Join(err, a.fetchFailed(perr))
		} else if at != "" {
			err = errors.Join(err, a.settle(ctx, at, p.place(as, m.name)))
		}
	}
	if lacks.More -= len(lacks.Left); len(lacks.Left) > 0 {
		a.event(ctx, lacks)
	}
	return err
}

// place is the place of what was picked.
func (p picking) place(name, longer string) output {
	return output{to: p.to, name: unused(p.taken, p.to, name, longer), replace: p.replace, partial: true}
}

// mostLinked is how many links that lead elsewhere in the volume are fetched for one output.
const mostLinked = 1000

// fetchLinked fetches what matches lead to that are links out of their directory, which is
// all of the volume that has come: they lead elsewhere in the volume, perhaps. What leads to
// nothing there is left; any other error may pass.
func fetchLinked(tree *fsutil.Root, found []match, lost []string, fetch func(name, as string) error) (all []match, left []string, err error) {
	for i, name := range lost {
		as := strconv.Itoa(i)
		if _, err := tree.Resolve(name); i >= mostLinked || !errors.Is(err, fsutil.ErrOutside) {
			left = append(left, name)
			continue
		}
		switch err := fetch(name, as); {
		case err == nil:
			found = append(found, match{name, as, true})
		case core.IsKind(err, core.NotFound), errors.Is(err, errLeadsOut):
			left = append(left, name)
		default:
			return nil, nil, err
		}
	}
	return found, left, nil
}

// match is a name in a tree, and what it leads to, which is elsewhere where that lies apart.
type match struct {
	name, is  string
	elsewhere bool
}

// resolved follows the links in names, each thing once: by its own name, or else by the
// first one that leads to it. What leads to nothing in the tree is lost.
func resolved(tree *fsutil.Root, names []string) (found []match, lost []string) {
	var linked []match
	for _, name := range names {
		is, err := tree.Resolve(name)
		switch {
		case err != nil:
			lost = append(lost, name)
		case is == name:
			found = append(found, match{name: name, is: is})
		default:
			linked = append(linked, match{name: name, is: is})
		}
	}
	for _, l := range linked {
		if !slices.ContainsFunc(found, func(m match) bool { return m.is == l.is || strings.HasPrefix(l.is, m.is+"/") }) {
			found = append(found, l)
		}
	}
	return found, lost
}

// keepVolume brings a volume home, which is on the disk then.
func (a *attempt) keepVolume(ctx context.Context, head, to string) error {
	t := driver.Transfer{Remote: protocol.VolumeDir(head), Local: to, Progress: a.fetching("the volume", 0)}
	if err := a.fetchAs(ctx, t); err != nil {
		return err
	}
	if err := fsutil.SyncTree(ctx, to); err != nil {
		return a.fetchFailed(err)
	}
	return nil
}

// splitGlob parts a path before the first element that holds a wildcard.
func splitGlob(p string) (fixed, pattern string) {
	elements := strings.Split(p, "/")
	for i, e := range elements {
		if strings.ContainsAny(e, `*?[\`) {
			return strings.Join(elements[:i], "/"), strings.Join(elements[i:], "/")
		}
	}
	return p, ""
}

func (a *attempt) fetchAs(ctx context.Context, t driver.Transfer) error {
	if err := fsutil.MkdirAll(filepath.Dir(t.Local), 0o777); err != nil {
		return a.fetchFailed(err)
	}
	err := transfer.WithinSpace(ctx, t, func(ctx context.Context, t driver.Transfer) error {
		return a.transfers().Retry(ctx, func() error { return a.lease.Fetch(ctx, t) })
	})
	err = ledOut(t, err)
	if err != nil && !core.IsKind(err, core.NotFound) {
		return a.fetchFailed(err)
	}
	return err
}

// fetchFailed keeps the run open: its outputs are still on the site.
func (a *attempt) fetchFailed(err error) error {
	return &core.Error{
		Kind: core.KindOf(err), Op: "bring home the outputs of run", Object: a.run.ID, Err: err,
		Remedy: "They are safe on site " + a.site.Name + ". Put the cause right, then run `bee supervise`: it collects them and ends the run. `bee stop --without-outputs " + a.run.ID + "` ends it without them.",
	}
}
