// Package submission has what the record of a run says of its job and its sites, and records
// new runs. It reads records and the user's files, and asks no site.
package submission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/notify"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Submission is everything a controller needs to carry a run out, as it is
// kept in the run's record. It holds where secrets come from, not the secrets.
type Submission struct {
	Version int         `json:"version"`
	Job     spec.Job    `json:"job"`
	Sites   []spec.Site `json:"sites"` // in order of priority
	// SitesFile is where they come from, as a whole path: see Awaken.
	SitesFile string `json:"sites_file,omitempty"`
	// StoreName is what the run is called in its store, where another
	// installation has begun it.
	StoreName string `json:"store_name,omitempty"`
	// Machines is the run whose saved virtual machines this one has, where that
	// was another.
	Machines string `json:"machines,omitempty"`
	// InGuest has the job's command be one of the guest's root: see protocol.Plan.
	// Only the process that has submitted such a run wants its result: a controller that
	// takes it over ends it, and forgets it.
	InGuest bool `json:"in_guest,omitempty"`
	// Input has the job's command read what the user passes to the controller, once: another
	// attempt would not get it again. With Terminal it is on a terminal.
	Input    bool               `json:"input,omitempty"`
	Terminal *protocol.Terminal `json:"terminal,omitempty"`
	// Within is the directory that the job's inputs and outputs may not leave, as it may be
	// another user's and its user was not asked; "": none.
	Within string `json:"within,omitempty"`
	// Own is the directory of the user's own Beefile, without links: where a link in an
	// input leads into it, the target comes in its place. "": no such link is followed.
	Own string `json:"own,omitempty"`
	// Origin is who submitted the run, and from where.
	Origin Origin `json:"origin,omitzero"`
	// Notify are the receivers of the user's sites file; those of the Beefile are in Job.
	Notify []spec.Notify `json:"notify,omitempty"`
	// Array is the case of an array that the run is; nil: it is none.
	Array *ArrayCase `json:"array,omitempty"`
	// After are the runs of Job.After, as they were found at submission.
	After []Dependency `json:"after,omitempty"`
	// Together is what the runs of jobs have in common that were submitted together; "": it was alone.
	Together string `json:"together,omitempty"`
	// Restart is how often Slurm had started the batch job again in which the run was submitted.
	Restart int `json:"restart,omitempty"`
	// Pull is when to ask the registry again: missing, always or never.
	Pull string `json:"pull,omitempty"`
	// Ticket is set of a run that other installations can continue by a ticket. Only the one
	// that its site has on record controls it then.
	Ticket Ticket `json:"ticket,omitempty"`
}

// Origin is where a run comes from. Nothing depends on it.
type Origin struct {
	// Beefile is its absolute path; "": standard input, or a command line.
	Beefile string `json:"beefile,omitempty"`
	// Dir is the working directory of the command that submitted the run.
	Dir string `json:"dir,omitempty"`
	// Version is that of bee.
	Version string `json:"version,omitempty"`
	User    string `json:"user,omitempty"`
}

// opSubmit is the operation of Submit in its errors.
const opSubmit = "submit"

// Ticket is what the ticket of a run means for this installation.
type Ticket string

// The values. Sealed is that of the installation that submitted the run: any other may control
// it. Adopted is that of one which the run's site has on record.
const (
	Sealed  Ticket = "sealed"
	Adopted Ticket = "adopted"
)

// Version is raised when an older controller could not carry a newer
// submission out.
const Version = 1

// packedVersion is that of packs and of their cases, which a controller that knows no packs must not carry out.
const packedVersion = 2

// readable reports whether this bee can carry out what has that version.
func readable(version int) bool { return version == Version || version == packedVersion }

// BoundedSites are its sites with slots no longer than an attempt of the job may take.
func (s *Submission) BoundedSites() []spec.Site {
	sites := make([]spec.Site, len(s.Sites))
	for i, site := range s.Sites {
		sites[i] = site.Within(s.Job.Time)
	}
	return sites
}

// arrayID is the id of the array that the run is a case of; "": it is none.
func (s *Submission) arrayID() string {
	if s.Array == nil {
		return ""
	}
	return s.Array.ID
}

// Encode returns the submission as records have it. What job and sites leave out is left out
// there as well, for an array has a record of each case.
func (s *Submission) Encode() (json.RawMessage, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var all map[string]json.RawMessage
	var sites []json.RawMessage
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(all["sites"], &sites); err != nil {
		return nil, err
	}
	for i := range sites {
		if sites[i], err = withoutNulls(sites[i]); err != nil {
			return nil, err
		}
	}
	if all["job"], err = withoutNulls(all["job"]); err != nil {
		return nil, err
	}
	if all["sites"], err = json.Marshal(sites); err != nil {
		return nil, err
	}
	return json.Marshal(all)
}

// withoutNulls returns an object without those of its members that are null.
func withoutNulls(object json.RawMessage) (json.RawMessage, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(object, &members); err != nil {
		return nil, err
	}
	maps.DeleteFunc(members, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return json.Marshal(members)
}

// Submit records a new run, and returns it with its lock held: from the first
// moment the run has a controller, which is this process. Busy: its outputs would come
// where those of a run do that is not over. NotFound, Invalid: so are the runs that it is to
// begin after, or what it reads in their volumes.
func Submit(ctx context.Context, store *state.Store, s Submission) (state.Run, *state.Lock, error) {
	var err error
	if s.After, err = dependencies(ctx, store, s.Job.After); err != nil {
		return state.Run{}, nil, err
	}
	readers, err := newReaders(ctx, store, []Submission{s}, nil)
	if err != nil {
		return state.Run{}, nil, err
	}
	defer readers.unlock()
	run, lock, err := Record(ctx, store, opSubmit, s, func(id string) error { return readers.note(store, 0, id) })
	if err != nil {
		readers.forget(store, run.ID)
	}
	return run, lock, err
}

// Record is Submit of a run whose directory is filled first: what is recorded
// is whole.
func Record(ctx context.Context, store *state.Store, op string, s Submission, fill func(id string) error) (state.Run, *state.Lock, error) {
	s.Version = Version
	raw, err := s.Encode()
	if err != nil {
		return state.Run{}, nil, err
	}
	run := state.Run{ID: state.NewID(), Name: s.Job.Name, State: state.Queued, Created: time.Now(), Submission: raw}
	lock, err := store.Locks().Acquire(run.ID)
	if err != nil {
		return run, nil, err
	}
	err = fill(run.ID)
	if err == nil && len(s.Notify)+len(s.Job.Notify) > 0 {
		err = notify.Prepare(store, run.ID)
	}
	if err == nil {
		_, err = store.Write(ctx, state.Change{Run: &run, Admit: s.Admits(op, run.ID)})
	}
	if err != nil {
		fsutil.TryRemoveAll(store.RunDir(run.ID))     // else a sweep does
		core.BestEffort(notify.Remove(store, run.ID)) // else a later look does
		lock.Unlock()
		return run, nil, err
	}
	return run, lock, nil
}

// Prices returns the price of a host for an hour by site.
func (s *Submission) Prices() map[string]state.Price {
	prices := map[string]state.Price{}
	for _, site := range s.Sites {
		prices[site.Name] = state.Price{Hour: site.Price.Amount, Currency: site.Price.Currency}
	}
	return prices
}

// Of reads the submission of a run's record.
func Of(run state.Run) (Submission, error) {
	var s Submission
	if err := json.Unmarshal(run.Submission, &s); err != nil {
		return s, fmt.Errorf("read submission of run %s: %w", run.ID, err)
	}
	if !readable(s.Version) {
		return s, &core.Error{
			Kind: core.Unsupported, Op: "read submission of run", Object: run.ID,
			Err:    fmt.Errorf("it has version %d, this bee knows %d", s.Version, packedVersion),
			Remedy: "Use the version of bee that submitted the run.",
		}
	}
	s.placed(run.ID)
	s.Sites = s.BoundedSites()
	return s, nil
}
