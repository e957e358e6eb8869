package recordcmd

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// webSites are the sites of the user and what is on record of them. None is asked.
type webSites struct {
	File  string    `json:"file,omitempty"`
	Sites []webSite `json:"sites"`
	// Waiting are runs that no site has now.
	Waiting []webWaiting `json:"waiting"`
}

// webSite is a site in its place in the order of priority.
type webSite struct {
	Name        string     `json:"name"`
	Provider    string     `json:"provider"`
	Runtime     string     `json:"runtime,omitempty"`
	SlotSeconds float64    `json:"slot_seconds,omitempty"`
	Price       spec.Price `json:"price,omitzero"`
	// Runs are those that are there now.
	Runs []webWaiting `json:"runs"`
	// Attempts are how many of the newest runs were there, and QueueSeconds how long the
	// latest of them waited for hosts.
	Attempts     int      `json:"attempts"`
	QueueSeconds *float64 `json:"queue_seconds,omitempty"`
	// Last is when the last of them began, and Problem why it ended, if by an error.
	Last    *time.Time `json:"last,omitempty"`
	Problem string     `json:"problem,omitempty"`
}

// webWaiting is a run, and what it waits for.
type webWaiting struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	State state.RunState `json:"state"`
	Why   string         `json:"why,omitempty"`
}

// webSitesRuns is how many of the newest runs the page of sites is about.
const webSitesRuns = 300

// Sites implements web.Records.
func (w *webRecords) Sites(ctx context.Context) (any, error) {
	f, err := w.a.FindSites()
	if err != nil {
		return nil, err
	}
	sites := f.Sites
	if f.Path == "" && len(sites) == 0 {
		sites = spec.DefaultSites()
	}
	all := webSites{File: f.Path, Sites: []webSite{}, Waiting: []webWaiting{}}
	for _, s := range sites {
		all.Sites = append(all.Sites, webSite{Name: s.Name, Provider: s.Provider, Runtime: s.Runtime, SlotSeconds: s.Slot.Seconds(), Price: s.Price, Runs: []webWaiting{}})
	}
	runs, err := w.s.Store.Runs(ctx, state.Filter{Limit: webSitesRuns})
	if err != nil {
		return nil, err
	}
	for _, r := range runs { // newest first
		v, err := runview.Summary(ctx, w.s, r)
		if core.IsKind(err, core.NotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		all.add(v)
	}
	return all, nil
}

// add adds a run to the sites on which its attempts were.
func (all *webSites) add(v runview.View) {
	over := v.State.Final()
	here := webWaiting{v.ID, v.Name, v.State, v.Why}
	last := len(v.Attempts) - 1
	if !over && (last < 0 || v.Attempts[last].Ended != nil) {
		all.Waiting = append(all.Waiting, here)
	}
	for i, at := range slices.Backward(v.Attempts) {
		n := slices.IndexFunc(all.Sites, func(s webSite) bool { return s.Name == at.Site })
		if n < 0 {
			continue
		}
		s := &all.Sites[n]
		s.Attempts++
		if !over && i == last && at.Ended == nil {
			s.Runs = append(s.Runs, here)
		}
		if s.Last == nil {
			s.Last = &at.Started
			if at.Error != nil {
				s.Problem = at.Error.Message
			}
		}
		if took, is := at.Phases[core.PhaseQueue]; is && s.QueueSeconds == nil {
			s.QueueSeconds = &took
		}
	}
}
