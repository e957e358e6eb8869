package submission

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Source is what an input of a job is that an earlier run left in its volume.
type Source struct {
	// Run is the run's id.
	Run, Name string
	// Path is relative to the volume.
	Path string
}

// Source returns what an input is; false: it comes from no run.
func (s *Submission) Source(in spec.Input) (src Source, is bool, err error) {
	if in.Earlier == (spec.RunPath{}) {
		return src, false, nil
	}
	d, err := s.source(in)
	return Source{d.Run, d.Name, path.Clean(in.Earlier.Path)}, true, err
}

func (s *Submission) source(in spec.Input) (Dependency, error) {
	at := slices.IndexFunc(s.After, func(d Dependency) bool { return d.meantBy(in.Earlier.Run) })
	if at < 0 {
		return Dependency{}, &core.Error{
			Kind: core.Invalid, Op: opInput, Object: in.Earlier.String(), Err: errors.New("the job does not wait for that run"),
			Remedy: "Name one run in all cases of the array, or write a Beefile for the array alone.",
		}
	}
	return s.After[at], nil
}

// opInput is the operation of errors of an input from a run.
const opInput = "find input"

// Reader is a run that has inputs of another one's volume, which are at Paths there.
type Reader struct {
	Run   string
	Paths []string
}

// ReadersOf returns the runs that are not over and have inputs of a run's volume. ended is how
// that run has ended: those that never begin after it need nothing. "": it is not known.
func ReadersOf(ctx context.Context, store *state.Store, run string, ended state.RunState) ([]Reader, error) {
	var list []Reader
	err := eachReader(ctx, store, run, ended, func(r Reader) bool {
		list = append(list, r)
		return true
	})
	slices.SortFunc(list, func(a, b Reader) int { return strings.Compare(a.Run, b.Run) })
	return list, err
}

// AReaderOf returns one of ReadersOf; "": there is none.
func AReaderOf(ctx context.Context, store *state.Store, run string, ended state.RunState) (id string, err error) {
	err = eachReader(ctx, store, run, ended, func(r Reader) bool {
		id = r.Run
		return false
	})
	return id, err
}

func eachReader(ctx context.Context, store *state.Store, run string, ended state.RunState, found func(Reader) (more bool)) error {
	return retention.DependentsOf(store, run).Each(func(id string) (bool, error) {
		other, err := store.Run(ctx, id)
		if core.IsKind(err, core.NotFound) || err == nil && other.State.Final() {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		sub, err := Of(other)
		if core.IsKind(err, core.Unsupported) { // another version of bee can read it
			return found(Reader{Run: id}), nil
		}
		if err != nil { // no controller can
			return true, nil
		}
		if paths := sub.reads(run, ended); len(paths) > 0 {
			return found(Reader{id, paths}), nil
		}
		return true, nil
	})
}

// reads returns what the inputs of the job are in the volume of a run that has ended so.
func (s *Submission) reads(run string, ended state.RunState) []string {
	if ended != "" && slices.ContainsFunc(s.After, func(d Dependency) bool { return d.means(run, "") && !d.Met(ended) }) {
		return nil
	}
	var paths []string
	for _, in := range s.Job.Inputs {
		if src, is, err := s.Source(in); is && err == nil && src.Run == run {
			paths = append(paths, src.Path)
		}
	}
	return paths
}

// readers are the sources of runs that are about to be recorded. The dependents of these
// sources stay as they are until unlock is called.
type readers struct {
	of      [][]string // ids of the runs whose volumes each submission reads
	unlocks []func()
}

func (r *readers) unlock() {
	for _, unlock := range r.unlocks {
		unlock()
	}
}

// newReaders finds out whether what new runs read in volumes is there, or will be. beside are the
// submissions of those that are recorded with them, by id. NotFound: it is not there.
// Unsupported: the volume of such a run cannot be kept.
func newReaders(ctx context.Context, store *state.Store, subs []Submission, beside map[string]*Submission) (r *readers, err error) {
	r = &readers{of: make([][]string, len(subs))}
	wanted := map[string]map[string]bool{} // paths by run
	for i := range subs {
		for _, in := range subs[i].Job.Inputs {
			src, is, err := subs[i].Source(in)
			if err != nil {
				return nil, err
			}
			if !is {
				continue
			}
			if subs[i].Ticket != "" {
				return nil, unreadable(src, errors.New("a machine that adopts the run by its ticket could not reach it"), "Leave out --ticket, or pass the files by `outputs:`.")
			}
			if d, err := subs[i].source(in); err != nil || d.Array {
				return nil, unreadable(src, errors.New("it is an array, and each case has a volume of its own"), fmt.Sprintf("Name a case, as in `run: %s.1`, or collect the files by `outputs:`.", d.Name))
			}
			if wanted[src.Run] == nil {
				wanted[src.Run] = map[string]bool{}
			}
			if !slices.Contains(r.of[i], src.Run) {
				r.of[i] = append(r.of[i], src.Run)
			}
			wanted[src.Run][src.Path] = true
		}
	}
	for _, run := range slices.Sorted(maps.Keys(wanted)) { // in one order for all processes
		if err = r.admit(ctx, store, run, slices.Sorted(maps.Keys(wanted[run])), beside[run]); err != nil {
			r.unlock()
			return nil, err
		}
	}
	return r, nil
}

// admit locks the dependents of a run, and refuses paths that are not there. of is the run's
// submission, if it is recorded with its readers.
func (r *readers) admit(ctx context.Context, store *state.Store, run string, paths []string, of *Submission) error {
	if of != nil {
		return of.keepsVolume(Source{run, of.Job.Name, paths[0]})
	}
	unlock, err := retention.DependentsOf(store, run).Lock(ctx)
	if err != nil {
		return err
	}
	r.unlocks = append(r.unlocks, unlock)
	rec, err := store.Run(ctx, run)
	if err != nil {
		return err
	}
	sub, err := Of(rec)
	if err != nil {
		return err
	}
	_, lent, err := Lends(ctx, store, run)
	if err != nil || lent {
		return err
	}
	over, err := releases(ctx, store, rec)
	if err != nil {
		return err
	}
	for _, p := range paths {
		src := Source{run, rec.Name, p}
		if over {
			if _, _, is, err := LocalCopy(ctx, store, src); err != nil || !is {
				return errors.Join(err, errVolumeGone(src))
			}
		} else if err := sub.keepsVolume(src); err != nil {
			return err
		}
	}
	return nil
}

// Whereabouts returns where an input from a run is now, for people. The errors are those of a
// submission.
func Whereabouts(ctx context.Context, store *state.Store, in spec.Input) (string, error) {
	d, err := FindDependency(ctx, store, spec.After{Run: in.Earlier.Run})
	if core.IsKind(err, core.NotFound) {
		return "which is not submitted yet", nil
	}
	if err != nil {
		return "", err
	}
	s := Submission{After: []Dependency{d}}
	s.Job.Inputs = []spec.Input{in}
	r, err := newReaders(ctx, store, []Submission{s}, nil)
	if err != nil {
		return "", err
	}
	r.unlock()
	src, _, err := s.Source(in)
	if err != nil {
		return "", err
	}
	at, lent, err := Lends(ctx, store, src.Run)
	switch {
	case err != nil:
		return "", err
	case lent:
		return fmt.Sprintf("which is run %s, whose volume site %s keeps", src.Run, at.Site), nil
	}
	_, file, is, err := LocalCopy(ctx, store, src)
	if err != nil || !is {
		return fmt.Sprintf("which is run %s, and not over", src.Run), err
	}
	return fmt.Sprintf("which is run %s, from %s", src.Run, file), nil
}

// releases reports whether a run is over, or ends with an attempt of which nothing is kept.
func releases(ctx context.Context, store *state.Store, run state.Run) (bool, error) {
	if run.State.Final() {
		return true, nil
	}
	attempts, err := store.Attempts(ctx, run.ID)
	if err != nil || len(attempts) == 0 {
		return false, err
	}
	last := attempts[len(attempts)-1]
	return last.Verdict.Final() && (last.State == state.Releasing || last.State == state.Closed), nil
}

// Lends returns the attempt of a run whose volume is kept for other runs; false: there is none.
func Lends(ctx context.Context, store *state.Store, run string) (at state.Attempt, is bool, err error) {
	attempts, err := store.Attempts(ctx, run)
	if err != nil || len(attempts) == 0 {
		return at, false, err
	}
	at = attempts[len(attempts)-1]
	return at, at.LentToRuns(), nil
}

// keepsVolume refuses a run whose volume is not kept for others.
func (s *Submission) keepsVolume(src Source) error {
	var why string
	j := &s.Job
	switch {
	case s.Array != nil && s.Array.Pack > 0 || len(j.Pack) > 0:
		why = "it shares its lease with other cases of its array"
	case j.Volume.Kind == spec.VolumeBurst:
		why = "its volume is a burst buffer, whose files are on its remote"
	case j.VM != nil && j.VM.When != spec.VMNever && j.Volume.Kind != spec.VolumeVirtio:
		why = "its volume may be a data image of its virtual machines"
	case s.Ticket != "":
		why = "another machine may control it by its ticket"
	default:
		return nil
	}
	return unreadable(src, errors.New(why), "Name the files in its `outputs:`, and read them by `from:` with a path.")
}

func unreadable(src Source, why error, remedy string) error {
	return &core.Error{Kind: core.Unsupported, Op: opInput, Object: src.text(), Err: fmt.Errorf("its volume cannot be read: %w", why), Remedy: remedy}
}

func (s Source) text() string { return fmt.Sprintf("%q of run %s (%s)", s.Path, s.Run, s.Name) }

// errVolumeGone is the error of an input that is neither in a volume nor among outputs.
func errVolumeGone(src Source) error {
	return &core.Error{
		Kind: core.NotFound, Op: opInput, Object: src.text(), Err: errors.New("the run is over, its volume was released, and no collected output that is still as it was has the path"),
		Remedy: "Run it again, and submit this job before it ends, such as in one file with `---`. Or name the path in its `outputs:`.",
	}
}

// note records the run of a submission with those whose volumes it reads.
func (r *readers) note(store *state.Store, submission int, run string) error {
	for _, source := range r.of[submission] {
		if err := retention.DependentsOf(store, source).Add(run); err != nil {
			return err
		}
	}
	return nil
}

// forget undoes note of a run that was not recorded. What stays of it is of no run.
func (r *readers) forget(store *state.Store, run string) {
	for _, sources := range r.of {
		for _, source := range sources {
			core.BestEffort(retention.DependentsOf(store, source).Remove(run))
		}
	}
}

// recordReaders is record, with the runs whose volumes new jobs read.
func recordReaders(ctx context.Context, store *state.Store, jobs []newJob, refuse func(active []state.Run) error) error {
	var subs []Submission
	var ids []string
	beside := map[string]*Submission{}
	for _, job := range jobs {
		for i := range job.subs {
			subs = append(subs, job.subs[i])
			ids = append(ids, stagedBy(job.runs[i]))
			beside[job.runs[i].ID] = &job.subs[i]
		}
	}
	r, err := newReaders(ctx, store, subs, beside)
	if err != nil {
		return err
	}
	defer r.unlock()
	for i, id := range ids {
		if err == nil {
			err = r.note(store, i, id)
		}
	}
	if err == nil {
		err = record(ctx, store, jobs, refuse)
	}
	if err != nil {
		for _, id := range ids {
			r.forget(store, id)
		}
	}
	return err
}

// stagedBy returns the run that stages the inputs of another one: its pack, or itself.
func stagedBy(run state.Run) string { return cmp.Or(run.Case.Pack, run.ID) }

// mostCompared bounds the files of an output that are compared with the record of what was
// collected.
const mostCompared = 20_000

// LocalCopy returns where a source is on the submitting machine: among what was kept of the
// run's volume, or in a collected output that is still as it was. dir is the directory that
// the file, which may be a link, must not leave.
func LocalCopy(ctx context.Context, store *state.Store, src Source) (dir, file string, is bool, err error) {
	runDir := store.RunDir(src.Run)
	if dir, file, is, err := below(retention.UnnamedVolume(runDir), src.Path); is || err != nil {
		return dir, file, is, err
	}
	for outer, rest := src.Path, "."; ; outer, rest = path.Dir(outer), path.Join(path.Base(outer), rest) {
		passed := retention.PassedAt(runDir, outer)
		name := filepath.Base(passed)
		if dir, file, is, err := below(filepath.Dir(passed), path.Join(name, rest)); is || err != nil {
			return dir, file, is, err
		}
		if outer == "." {
			break
		}
	}
	run, err := store.Run(ctx, src.Run)
	if err != nil {
		return "", "", false, err
	}
	sub, err := Of(run)
	if err != nil {
		return "", "", false, err
	}
	for _, o := range sub.Job.Outputs {
		rel, in := sub.Job.InVolume(o)
		if !in || spec.IsRemote(o.To) {
			continue
		}
		name, has := collectedAs(rel, src.Path)
		if !has {
			continue
		}
		real, err := filepath.EvalSymlinks(o.To)
		if err != nil {
			continue
		}
		file := filepath.Join(real, filepath.FromSlash(name))
		if same, err := asCollected(ctx, store, src.Run, real, file); err != nil || same {
			return real, file, same, err
		}
	}
	return "", "", false, nil
}

// below returns where a name leads to in a directory, if it is there and stays inside.
func below(dir, name string) (real, file string, is bool, err error) {
	root, err := fsutil.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", false, nil
	}
	if err != nil {
		return "", "", false, err
	}
	defer root.Close()
	target, err := root.Resolve(name)
	if err != nil { // it is not there, or leads out
		return "", "", false, nil
	}
	real, err = root.Real()
	return real, filepath.Join(real, target), err == nil, err
}

// collectedAs returns the name below its `to:` that a path in the volume has by an output of a
// pattern or path there.
func collectedAs(output, wanted string) (name string, is bool) {
	if wanted == output || strings.HasPrefix(wanted, output+"/") {
		return path.Base(output) + strings.TrimPrefix(wanted, output), true
	}
	if is, err := fsutil.Match(output, wanted); err == nil && is {
		return path.Base(wanted), true
	}
	return "", false
}

// asCollected reports whether files at a path in a directory are those of a run, as it has left
// them.
func asCollected(ctx context.Context, store *state.Store, run, dir, file string) (bool, error) {
	list, err := state.WrittenBy(ctx, store, run, file, mostCompared)
	if err != nil || len(list) == 0 {
		return false, err
	}
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return false, nil // it was removed since then
	}
	defer root.Close()
	for _, w := range list {
		name, err := filepath.Rel(dir, w.Path)
		if err != nil {
			return false, err
		}
		info, err := root.Lstat(name)
		if err != nil || w.Partial || info.Size() != w.Size || !info.ModTime().Equal(w.Modified) {
			return false, nil
		}
	}
	return true, nil
}
