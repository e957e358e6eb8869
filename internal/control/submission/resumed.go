package submission

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Resumed returns a suspended run as it continues, on the sites that its user has named, as
// they are in the request, before those that it has.
func Resumed(ctx context.Context, store *state.Store, run state.Run, named json.RawMessage) (state.Run, error) {
	sub, err := Of(run)
	if err != nil {
		return run, err
	}
	if sub.Job.SavesVM() {
		if err := Alone(ctx, store, sub.FirstRun(run.ID), run.ID); err != nil {
			return run, &core.Error{Kind: core.Busy, Op: "resume run", Object: run.ID, Err: err}
		}
	}
	if len(named) > 0 {
		var sites []spec.Site
		if err := json.Unmarshal(named, &sites); err != nil {
			return run, err
		}
		sub.Prefer(sites)
	} else {
		sub.Sites = append(sub.Sites, sub.NewSites(spec.LoadSites)...)
	}
	if run.Submission, err = json.Marshal(sub); err != nil {
		return run, err
	}
	run.State, run.Suspended, run.Kind, run.Message, run.Remedy = state.Queued, "", "", "", ""
	return run, nil
}

// InAllocation returns those sites, as they are in an allocation of Slurm's, that have its
// hosts and that the job of a run may use: what its user expects who resumes it there.
func InAllocation(run state.Run, sites []spec.Site, allocation string) ([]spec.Site, error) {
	sub, err := Of(run)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(sites), func(s spec.Site) bool {
		return !s.Granted() || s.Slurm.Job != allocation || len(sub.Job.Sites) > 0 && !slices.Contains(sub.Job.Sites, s.Name)
	}), nil
}

// RefreshSites takes from the sites file of a suspended run what may have changed of its
// sites: the time of an allocation is over, and a limit of cost may have been raised, or set
// with a price.
func RefreshSites(run state.Run, load func(string) (spec.SitesFile, error)) (state.Run, error) {
	sub, err := Of(run)
	if err != nil || sub.SitesFile == "" {
		return run, err
	}
	f, err := load(sub.SitesFile)
	if err != nil {
		return run, nil // the run keeps the sites that it has
	}
	for i, old := range sub.Sites {
		at := slices.IndexFunc(f.Sites, func(n spec.Site) bool {
			return n.Name == old.Name && n.Provider == old.Provider && n.Login == old.Login
		})
		if at < 0 {
			continue
		}
		if sub.Sites[i].MaxCost, sub.Sites[i].Price = f.Sites[at].MaxCost, f.Sites[at].Price; old.Granted() {
			sub.Sites[i].Slurm = f.Sites[at].Slurm
		}
		if own, now := sub.Sites[i].AWS, f.Sites[at].AWS; own != nil && now != nil {
			own.AskPrice, own.Rate = now.AskPrice, now.Rate
		}
	}
	run.Submission, err = json.Marshal(sub)
	return run, err
}

// NewSites gives the sites that a run's sites file has for it by now, and that it does not
// have; none where the file cannot be read: the run waits on.
func (s *Submission) NewSites(load func(string) (spec.SitesFile, error)) []spec.Site {
	if s.SitesFile == "" {
		return nil
	}
	f, err := load(s.SitesFile)
	if err != nil {
		return nil
	}
	sites, err := spec.SelectSites(&s.Job, f.Sites, f.Path)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(sites), func(n spec.Site) bool {
		return slices.ContainsFunc(s.Sites, func(old spec.Site) bool { return old.Name == n.Name })
	})
}

// LoadOnce reads each sites file once: many runs have the same.
func LoadOnce() func(string) (spec.SitesFile, error) {
	type read struct {
		f   spec.SitesFile
		err error
	}
	known := map[string]read{}
	return func(file string) (spec.SitesFile, error) {
		r, is := known[file]
		if !is {
			r.f, r.err = spec.LoadSites(file)
			known[file] = r
		}
		return r.f, r.err
	}
}
