package submission

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Submitted are runs that were submitted together, the oldest first: those of the jobs of a Beefile,
// the cases of an array, or one run. Packs are not among them.
type Submitted struct {
	Runs []state.Run
	Subs []Submission
}

// Earlier returns what was submitted before, the oldest first, whose submissions have a text as a string,
// such as a path, and that want accepts. Runs of other versions of bee are left out.
func Earlier(ctx context.Context, store *state.Store, text string, want func(s *Submission) bool) ([]Submitted, error) {
	quoted, err := json.Marshal(text)
	if err != nil {
		return nil, err
	}
	runs, err := store.Runs(ctx, state.Filter{})
	if err != nil {
		return nil, err
	}
	var all []Submitted
	places := map[string]int{}
	for _, run := range slices.Backward(runs) {
		var sub Submission
		if !bytes.Contains(run.Submission, quoted) || json.Unmarshal(run.Submission, &sub) != nil || !readable(sub.Version) || len(sub.Job.Pack) > 0 || !want(&sub) {
			continue
		}
		key := cmp.Or(sub.Together, sub.arrayID(), run.ID)
		at, is := places[key]
		if !is {
			at = len(all)
			places[key], all = at, append(all, Submitted{})
		}
		all[at].Runs, all[at].Subs = append(all[at].Runs, run), append(all[at].Subs, sub)
	}
	return all, nil
}

// byName returns the jobs by the names of their runs.
func byName(jobs []Job) map[string]*spec.Job {
	now := map[string]*spec.Job{}
	for _, job := range jobs {
		for i := range job.Runs {
			now[job.Runs[i].Job.Name] = &job.Runs[i].Job
		}
	}
	return now
}

// Of reports whether these are the runs of jobs, as the jobs are now.
func (e Submitted) Of(jobs []Job) bool {
	now := byName(jobs)
	for i := range e.Subs {
		if job := now[e.Subs[i].Job.Name]; job == nil || !SameJob(&e.Subs[i].Job, job) {
			return false
		}
	}
	return len(e.Subs) == len(now)
}

// LiveOf returns those of the runs that are not over, and are of one of some jobs.
func (e Submitted) LiveOf(jobs []Job) (live []state.Run) {
	now := byName(jobs)
	for i, run := range e.Runs {
		if job := now[e.Subs[i].Job.Name]; job != nil && !run.State.Final() && SameJob(&e.Subs[i].Job, job) {
			live = append(live, run)
		}
	}
	return live
}

// Live returns one of the runs that is not over.
func (e Submitted) Live() (run state.Run, is bool) {
	i := slices.IndexFunc(e.Runs, func(r state.Run) bool { return !r.State.Final() })
	if i < 0 {
		return run, false
	}
	return e.Runs[i], true
}

// Succeeded reports whether all runs have succeeded. One that never began, as another one ended otherwise
// than it waits for, does not count.
func (e Submitted) Succeeded(ctx context.Context, store *state.Store) (bool, error) {
	never, err := NeverBegan(ctx, store, e.Runs)
	if err != nil {
		return false, err
	}
	succeeded := 0
	for _, run := range e.Runs {
		if run.State == state.Succeeded {
			succeeded++
		} else if !never[run.ID] {
			return false, nil
		}
	}
	return succeeded > 0, nil
}

// Had reports whether the runs that have succeeded had images, by the names of the runs.
func (e Submitted) Had(ctx context.Context, store *state.Store, images map[string]string) (bool, error) {
	for _, run := range e.Runs {
		if run.State != state.Succeeded {
			continue
		}
		image := run.Image
		if run.Case.Pack != "" {
			pack, err := store.Run(ctx, run.Case.Pack)
			if err != nil && !core.IsKind(err, core.NotFound) { // else it was removed
				return false, err
			}
			image = pack.Image
		}
		if image != images[run.Name] {
			return false, nil
		}
	}
	return true, nil
}

// SameJob reports whether the job of a record is one that is to be submitted. On record, an output
// that was relative is one below a directory of the image.
func SameJob(was, now *spec.Job) bool {
	if len(was.Outputs) != len(now.Outputs) {
		return false
	}
	same := *was
	same.Outputs = slices.Clone(was.Outputs)
	for i := range same.Outputs {
		if from := now.Outputs[i].From; !path.IsAbs(from) && strings.HasSuffix(same.Outputs[i].From, path.Join("/", from)) {
			same.Outputs[i].From = from
		}
	}
	a, err := json.Marshal(&same)
	if err != nil {
		return false
	}
	b, err := json.Marshal(now)
	return err == nil && bytes.Equal(a, b)
}
