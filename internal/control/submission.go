package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/inputs"
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
	// Pull is when to ask the registry again: missing, always or never.
	Pull string `json:"pull,omitempty"`
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

// submissionVersion is raised when an older controller could not carry a newer
// submission out.
const submissionVersion = 1

// within are its sites with slots no longer than an attempt of the job may take.
func (s *Submission) within() []spec.Site {
	sites := make([]spec.Site, len(s.Sites))
	for i, site := range s.Sites {
		sites[i] = site.Within(s.Job.Time)
	}
	return sites
}

func (s *Submission) encode() (json.RawMessage, error) { return json.Marshal(s) }

// Submit records a new run, and returns it with its lock held: from the first
// moment the run has a controller, which is this process. Busy: its outputs would come
// where those of a run do that is not over. NotFound, Invalid: so are the runs that it is to
// begin after.
func (c *Controller) Submit(ctx context.Context, s Submission) (state.Run, *state.Lock, error) {
	var err error
	if s.After, err = dependencies(ctx, c.Store, s.Job.After); err != nil {
		return state.Run{}, nil, err
	}
	return c.submit(ctx, opSubmit, s, func(string) error { return nil })
}

// submit is Submit of a run whose directory is filled first: what is recorded
// is whole.
func (c *Controller) submit(ctx context.Context, op string, s Submission, fill func(id string) error) (state.Run, *state.Lock, error) {
	s.Version = submissionVersion
	raw, err := s.encode()
	if err != nil {
		return state.Run{}, nil, err
	}
	run := state.Run{ID: state.NewID(), Name: s.Job.Name, State: state.Queued, Created: time.Now(), Submission: raw}
	lock, err := c.Store.Locks().Acquire(run.ID)
	if err != nil {
		return run, nil, err
	}
	err = fill(run.ID)
	if err == nil && len(s.Notify)+len(s.Job.Notify) > 0 {
		err = notify.Prepare(c.Store, run.ID)
	}
	if err == nil {
		_, err = c.Store.Write(ctx, state.Change{Run: &run, Admit: s.admits(op, run.ID)})
	}
	if err != nil {
		fsutil.TryRemoveAll(c.Store.RunDir(run.ID))     // else a sweep does
		core.BestEffort(notify.Remove(c.Store, run.ID)) // else a later look does
		lock.Unlock()
		return run, nil, err
	}
	return run, lock, nil
}

// Prices returns the price of a host for an hour by site.
func (s *Submission) Prices() map[string]float64 {
	prices := map[string]float64{}
	for _, site := range s.Sites {
		prices[site.Name] = site.Price
	}
	return prices
}

// SubmissionOf reads the submission of a run's record.
func SubmissionOf(run state.Run) (Submission, error) {
	var s Submission
	if err := json.Unmarshal(run.Submission, &s); err != nil {
		return s, fmt.Errorf("read submission of run %s: %w", run.ID, err)
	}
	if s.Version != submissionVersion {
		return s, &core.Error{
			Kind: core.Unsupported, Op: "read submission of run", Object: run.ID,
			Err:    fmt.Errorf("it has version %d, this bee knows %d", s.Version, submissionVersion),
			Remedy: "Use the version of bee that submitted the run.",
		}
	}
	s.placed(run.ID)
	s.Sites = s.within()
	return s, nil
}

// secrets reads the values of a job's secrets. They are read again by every
// controller, so that they never touch a disk.
func secrets(ctx context.Context, job *spec.Job) (map[string]string, error) {
	values := make(map[string]string, len(job.Secrets))
	for name, from := range job.Secrets {
		value, err := ReadSecret(ctx, from)
		if err != nil {
			return nil, &core.Error{
				Kind: core.Invalid, Op: "read secret", Object: name, Err: err,
				Remedy: "Check the `secrets:` entry of the Beefile.",
			}
		}
		values[name] = value
	}
	return values, nil
}

// ReadSecret reads the value of a secret from its source.
func ReadSecret(ctx context.Context, from spec.Secret) (string, error) {
	switch {
	case from.Env != "":
		value, ok := os.LookupEnv(from.Env)
		if !ok {
			return "", fmt.Errorf("variable %s is not set", from.Env)
		}
		return value, nil
	case from.File != "":
		raw, err := os.ReadFile(from.File)
		return strings.TrimSuffix(string(raw), "\n"), err
	default:
		raw, err := exec.CommandContext(ctx, "/bin/sh", "-c", from.Exec).Output()
		if ended, is := errors.AsType[*exec.ExitError](err); is && len(ended.Stderr) > 0 {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(ended.Stderr)))
		}
		return strings.TrimSuffix(string(raw), "\n"), err
	}
}

// InputWarnings reports links below a job's inputs that stay links, though the job does not
// have what they lead to. own is as in Submission.
func InputWarnings(ctx context.Context, job *spec.Job, own string) []string {
	return inputs.Warnings(ctx, job, own)
}
