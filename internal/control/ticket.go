package control

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/retention"
	"github.com/bee-hpc/bee/internal/control/runner"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/notify"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// opAdopt is the operation of AdoptTicket in its errors.
const opAdopt = "adopt run"

// Seal returns the ticket of a run that needs no controller now, as an encrypted file has it. Of
// several runs, those that are over are in it as well, and those that wait for others of them, which
// they follow. While a site does not answer that is to record it, it is asked again, until ctx ends.
func (c *Controller) Seal(ctx context.Context, key string, ids ...string) ([]byte, error) {
	tickets, subs := make([]retention.Ticket, len(ids)), make([]submission.Submission, len(ids))
	inside := map[string]bool{}
	for i, id := range ids {
		var err error
		if tickets[i], subs[i], err = c.ticketOf(ctx, id, inside); err != nil {
			return nil, err
		}
		inside[tickets[i].Job()] = true
	}
	sealed, err := retention.SealTicket(tickets, key)
	if err != nil {
		return nil, err
	}
	digest := retention.TicketDigest(sealed)
	for i, t := range tickets {
		retry := fsutil.Backoff{First: sealingRetry, Longest: longestSealingRetry}
		for !t.Over() && !t.Waits() {
			err := c.recordTicket(ctx, &subs[i], t.Attempts[len(t.Attempts)-1], digest)
			if err == nil {
				break
			}
			if !core.IsKind(err, core.Transient) {
				return nil, err
			}
			c.Log.Warn("record the ticket of a run at its site", "run", t.Run.ID, "err", err)
			if err := retry.Wait(ctx); err != nil {
				return nil, err
			}
		}
	}
	return sealed, nil
}

// bareOf returns the submission of a run as its ticket has it, but for the run's image.
func bareOf(sub *submission.Submission) submission.Submission {
	bare := submission.Submission{Version: sub.Version, Job: sub.Job, Ticket: submission.Sealed, Array: sub.Array}
	bare.Job.Store, bare.Sites = "", submission.Addresses(sub.Sites)
	return bare
}

// ticketOf makes the ticket of a run, and returns its submission. before are the jobs that are in the
// same ticket before it, for which it may wait.
func (c *Controller) ticketOf(ctx context.Context, id string, before map[string]bool) (t retention.Ticket, sub submission.Submission, err error) {
	run, err := c.Store.Run(ctx, id)
	if err != nil {
		return t, sub, err
	}
	if sub, err = submission.Of(run); err != nil {
		return t, sub, err
	}
	attempts, err := c.Store.Attempts(ctx, id)
	if err != nil {
		return t, sub, err
	}
	bare := bareOf(&sub)
	bare.After = slices.DeleteFunc(slices.Clone(sub.After), func(d submission.Dependency) bool { return !before[d.Run] })
	waits := len(attempts) == 0 && !run.State.Final()
	if waits && len(bare.After) == 0 {
		return t, sub, &core.Error{Kind: core.Invalid, Op: "make a ticket of run", Object: id, Err: errors.New("it has no attempt"), Remedy: "Submit it by `bee run -d --ticket FILE`."}
	}
	t = retention.Ticket{Installation: c.Store.User(), Machine: c.Adopter().Machine, Dir: sub.Origin.Dir, Attempts: attempts}
	if sub.Origin.Beefile != "" {
		t.Dir = filepath.Dir(sub.Origin.Beefile)
	}
	switch job := &bare.Job; {
	case waits:
		job.Image = spec.ImageFrom(job.Dir, job.Image)
	case job.Build != nil || spec.IsLocalImage(job.Image) || spec.IsEngineImage(job.Image):
		job.Image, job.Build = run.Image, nil // the reader has no such file
	}
	t.Run = state.Run{ID: run.ID, Name: run.Name, Created: run.Created, Image: run.Image, SetupDone: run.SetupDone, Case: run.Case}
	switch {
	case waits:
		t.Run.State = state.Queued
	case run.State.Final(): // nothing of it is left on its sites
		t.Run.State, t.Run.ExitCode, t.Run.Ended, t.Run.Kind, t.Run.Message, t.Run.Remedy = run.State, run.ExitCode, run.Ended, run.Kind, run.Message, run.Remedy
		t.Attempts = slices.Clone(attempts)
		for i := range t.Attempts {
			t.Attempts[i].Lease, t.Attempts[i].Key = nil, nil
		}
	default:
		t.Key = attempts[len(attempts)-1].Key
	}
	t.Run.Submission, err = bare.Encode()
	return t, sub, err
}

// recordTicket has the site of an attempt record the digest of the run's ticket, without which
// no other installation adopts the run.
func (c *Controller) recordTicket(ctx context.Context, sub *submission.Submission, open state.Attempt, digest string) error {
	site, err := sub.Site(open.Site)
	if err != nil {
		return err
	}
	provider, err := c.Provider(site)
	if err != nil {
		return err
	}
	if open.Lease == nil || provider.Foreign() == nil {
		return &core.Error{Kind: core.Unsupported, Op: "make a ticket of run", Object: open.Run, Err: fmt.Errorf("no other machine can continue it on site %s", site.Name), Remedy: "Name a site of provider ssh, or of provider slurm with `login`."}
	}
	lease, err := provider.Recover(ctx, *open.Lease)
	if err != nil {
		return err
	}
	defer lease.Disconnect()
	_, err = lease.Adopters().Adopt(ctx, driver.Adopter{Ticket: digest}, "")
	return err
}

// HandOver leaves a run to the machine that has its ticket. The caller has the run's lock.
func (c *Controller) HandOver(ctx context.Context, id string) (state.Run, error) {
	run, err := c.Store.Run(ctx, id)
	if err != nil {
		return run, err
	}
	attempts, err := c.Store.Attempts(ctx, id)
	if err != nil {
		return run, err
	}
	run = handedOver(run, len(attempts) > 0)
	return run, c.Store.PutRun(ctx, run)
}

// handedOver is a run as it is left to the machine that has its ticket.
func handedOver(run state.Run, begun bool) state.Run {
	run.State, run.Suspended = state.Suspended, state.ReasonTicket
	run.Message, run.Remedy = "it continues on its site, for the machine that has its ticket", "`bee wait --ticket FILE` continues it on any machine, `bee resume "+run.ID+"` here."
	if !begun {
		run.Message, run.Remedy = "it has not begun: the machine that adopts its ticket begins it", "`bee wait --ticket FILE` does so on any machine, also on this one."
	}
	return run
}

// adoptWait is how long AdoptTicket waits for another process of this installation that adopts
// the same run. adoptLook is the pause between two looks.
const (
	adoptWait = time.Minute
	adoptLook = 100 * time.Millisecond
)

// AdoptTicket has this installation control a run that another one has begun. One at a time
// does so, by the record of the run's site. With machineLost, the one on record is replaced.
// The ticket is not believed: see TakeOver. It counts only where the site has its digest.
//
// The run is on record here before it is on the site: after the death of this process, another
// one of this installation continues from there.
func (c *Controller) AdoptTicket(ctx context.Context, t retention.Ticket, f Foreign, machineLost bool) (state.Run, error) {
	run, lock, err := c.lockTicket(ctx, t.Run.ID)
	if err != nil || lock == nil {
		return run, err
	}
	defer lock.Unlock()
	if run.ID != "" {
		return c.adoptKnown(ctx, run, t, f, machineLost)
	}
	if !c.Store.Locks().Alone(t.Run.ID) {
		return run, &core.Error{Kind: core.Permanent, Op: opAdopt, Object: t.Run.ID, Err: errors.New("files of an earlier run are in " + c.Store.RunDir(t.Run.ID)), Remedy: "See what they are, and move them away."}
	}
	run, kept, err := c.adoptNew(ctx, t, f, machineLost)
	if err != nil && !kept {
		undo := context.WithoutCancel(ctx)
		err = errors.Join(err, c.Store.RemoveRun(undo, t.Run.ID), notify.Remove(c.Store, t.Run.ID), fsutil.RemoveAll(c.Store.RunDir(t.Run.ID)))
	}
	return run, err
}

// lockTicket locks the run of a ticket, and returns its record where there is one. There is no
// lock where the run is controlled here by its ticket already, or over.
func (c *Controller) lockTicket(ctx context.Context, id string) (state.Run, *state.Lock, error) {
	for begun := time.Now(); ; {
		lock, lerr := c.Store.Locks().Acquire(id)
		run, err := c.Store.Run(ctx, id)
		settled := err == nil && run.Suspended != state.ReasonTicket
		switch {
		case settled:
			err = ofTicket(run)
		case core.IsKind(err, core.NotFound):
			run, err = state.Run{}, nil
		}
		if lerr == nil && !settled && err == nil {
			return run, lock, nil
		}
		if lerr == nil {
			return run, nil, errors.Join(err, lock.Unlock())
		}
		if settled || err != nil {
			return run, nil, err
		}
		if !core.IsKind(lerr, core.Busy) || time.Since(begun) > adoptWait {
			return run, nil, lerr
		}
		if err := core.Sleep(ctx, adoptLook); err != nil {
			return run, nil, err
		}
	}
}

// ofTicket refuses a run on record here that has nothing to do with a ticket.
func ofTicket(run state.Run) error {
	sub, err := submission.Of(run)
	if err != nil || sub.Ticket != "" {
		return err
	}
	return &core.Error{Kind: core.Invalid, Op: opAdopt, Object: run.ID, Err: errors.New("a run of that id is on record here, and no ticket was made of it"), Remedy: "The ticket is not one of a run of yours: do not use it."}
}

// adoptNew is AdoptTicket of a run that is not on record here. kept means that its record
// stays, as this installation may be on record at the site.
func (c *Controller) adoptNew(ctx context.Context, t retention.Ticket, f Foreign, machineLost bool) (run state.Run, kept bool, err error) {
	run, sub, err := c.sealed(ctx, t, f, nil)
	if err != nil {
		return run, false, err
	}
	open, earlier, err := t.OpenAttempt()
	if err != nil {
		return run, false, err
	}
	lease, err := c.foreignLease(ctx, &sub, &open, t.Machine)
	if err != nil {
		return run, false, err
	}
	defer lease.Disconnect()
	instead, err := c.adoptable(ctx, run.ID, t, lease, machineLost)
	if err != nil {
		return run, false, err
	}
	if err := c.enterSealed(ctx, t, run, &sub, append(earlier, open)); err != nil {
		return run, false, err
	}
	return c.adopt(ctx, run, sub, lease, open, instead)
}

// sealed makes a suspended run of this installation of a ticket: the job is checked as one of a
// Beefile in the directory of f. before are the jobs before it in the same ticket, true for arrays; nil:
// what it waits for does not count.
func (c *Controller) sealed(ctx context.Context, t retention.Ticket, f Foreign, before map[string]bool) (run state.Run, sub submission.Submission, err error) {
	run = state.Run{ID: t.Run.ID, State: state.Suspended, Suspended: state.ReasonTicket, Created: retention.Began(t.Run.Created), SetupDone: t.Run.SetupDone, Message: "it is being adopted by its ticket", Remedy: "Give the ticket again."}
	if isImageID(t.Run.Image) {
		run.Image = t.Run.Image
	}
	if err := core.DecodeJSON(t.Run.Submission, &sub); err != nil {
		return run, sub, retention.ForeignError(run.ID, err)
	}
	for i := range sub.Job.Outputs {
		sub.Job.Outputs[i].To = movedPath(sub.Job.Outputs[i].To, t.Dir, f.Dir)
	}
	for i := range sub.Job.Inputs {
		sub.Job.Inputs[i].From = movedPath(sub.Job.Inputs[i].From, t.Dir, f.Dir)
	}
	if scheme, path, _ := strings.Cut(sub.Job.Image, ":"); spec.IsLocalImage(sub.Job.Image) {
		sub.Job.Image = scheme + ":" + movedPath(path, t.Dir, f.Dir)
	}
	addresses, place, after := sub.Sites, sub.Array, sub.After
	if sub, err = sub.Foreign(run.ID, f.Dir); err != nil {
		return run, sub, err
	}
	if sub.Array, err = caseOf(t, place); err != nil {
		return run, sub, err
	}
	if sub.After, err = afterOf(t, after, before); err != nil {
		return run, sub, err
	}
	if len(sub.Job.Pack) > 0 || sealable(&sub) != nil || t.Waits() && beginsElsewhere(&sub) != nil {
		return run, sub, retention.ForeignError(run.ID, errors.New("no ticket is made of such jobs"))
	}
	run.Case = t.Case()
	run.Name, sub.Job.Store, sub.Ticket = sub.Job.Name, "", submission.Sealed // until the site says that it is this one's
	if !t.Several {                                                           // else the places of all are looked at together
		if err := submission.PlacesFree(ctx, c.Store, opAdopt, &sub, run.ID); err != nil {
			return run, sub, err
		}
	}
	if err := allowed(&sub, f); err != nil {
		return run, sub, err
	}
	sites, err := f.Sites(nil)
	sub.Sites = submission.AtAddresses(addresses, sites)
	return run, sub, err
}

// movedPath is a path below a directory of another machine as one below dir.
func movedPath(path, from, dir string) string {
	if filepath.Clean(path) == filepath.Clean(from) {
		return dir
	}
	below, is := strings.CutPrefix(filepath.Clean(path), filepath.Clean(from)+"/")
	if !is || !filepath.IsAbs(from) || spec.IsRemote(path) {
		return path
	}
	return filepath.Join(dir, below)
}

// foreignLease recovers the lease of another installation's attempt, as the site knows it.
func (c *Controller) foreignLease(ctx context.Context, sub *submission.Submission, open *state.Attempt, machine string) (driver.Lease, error) {
	at := slices.IndexFunc(sub.Sites, func(s spec.Site) bool { return s.Name == open.Site })
	if at < 0 {
		return nil, &core.Error{
			Kind: core.NotFound, Op: "find site", Object: open.Site, Err: fmt.Errorf("the run computes there, and of the sites of its ticket the sites file has: %s", cmp.Or(strings.Join(submission.SiteNames(sub.Sites), ", "), "none")),
			Remedy: "Add the site under that name, with the same `provider`, and the same `login` or `hosts`, as on the machine that submitted the run.",
		}
	}
	site := sub.Sites[at]
	provider, err := c.Provider(site)
	if err != nil {
		return nil, err
	}
	foreign := provider.Foreign()
	if foreign == nil || provider.Info().Name != open.Provider {
		return nil, &core.Error{
			Kind: core.Invalid, Op: "use site", Object: site.Name, Err: fmt.Errorf("the run computes on a site of provider %q, and this one has %q", open.Provider, site.Provider),
			Remedy: "Give the site the same provider as on the machine that submitted the run.",
		}
	}
	handle, err := foreign.Checked(ctx, *open.Lease)
	if core.IsKind(err, core.NotFound) {
		return nil, &core.Error{
			Kind: core.NotFound, Op: opAdopt, Object: open.Run, Err: leaseGone{err},
			Remedy: fmt.Sprintf("The run is over and another machine has fetched it, or site %s has another `scratch` or account here than on %q.", site.Name, retention.Plain(machine)),
		}
	}
	if err != nil {
		return nil, err
	}
	lease, err := provider.Recover(ctx, handle)
	if err != nil {
		return nil, err
	}
	open.Lease = &handle
	if hosts := lease.Hosts(); len(hosts) > 0 && hosts[0].Name != "" {
		open.Hosts = hosts
	}
	return lease, nil
}

// leaseGone is the error of a site that has nothing of a run any more.
type leaseGone struct{ error }

// Unwrap returns the error of the site.
func (l leaseGone) Unwrap() error { return l.error }

// enterSealed records a run that is being adopted.
func (c *Controller) enterSealed(ctx context.Context, t retention.Ticket, run state.Run, sub *submission.Submission, attempts []state.Attempt) (err error) {
	if run.Submission, err = json.Marshal(sub); err != nil {
		return err
	}
	change := state.Change{Run: &run, Attempts: attempts, Durable: true}
	if !t.Several { // else AdoptTickets has done both for all
		if len(sub.Job.Notify) > 0 {
			if err := notify.Prepare(c.Store, run.ID); err != nil {
				return err
			}
		}
		change.Admit = sub.Admits(opAdopt, run.ID)
	}
	_, err = c.Store.Write(ctx, change)
	return err
}

// adoptKnown is AdoptTicket of a run that is on record here. One without hosts is on record because
// its site had nothing of it: that is looked at again.
func (c *Controller) adoptKnown(ctx context.Context, run state.Run, t retention.Ticket, f Foreign, machineLost bool) (state.Run, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return run, err
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return run, err
	}
	if len(attempts) == 0 || attempts[len(attempts)-1].Lease == nil {
		again, _, err := c.adoptNew(ctx, t, f, machineLost)
		if err != nil {
			return run, err
		}
		return again, nil
	}
	open := attempts[len(attempts)-1]
	site, err := sub.Site(open.Site)
	if err != nil {
		return run, err
	}
	provider, err := c.Provider(site)
	if err != nil {
		return run, err
	}
	lease, err := provider.Recover(ctx, *open.Lease)
	if core.IsKind(err, core.NotFound) {
		return run, &core.Error{Kind: core.NotFound, Op: opAdopt, Object: run.ID, Err: leaseGone{err}, Remedy: "Another machine has fetched it by its ticket, or the site has ended it. `bee stop " + run.ID + "` ends its record here."}
	}
	if err != nil {
		return run, err
	}
	defer lease.Disconnect()
	instead, err := c.adoptable(ctx, run.ID, t, lease, machineLost)
	if err != nil {
		return run, err
	}
	run, _, err = c.adopt(ctx, run, sub, lease, open, instead)
	return run, err
}

// adoptable checks a ticket by what the site has on record of the lease, before anything
// changes. It returns the installation in whose place this one comes; "": none.
func (c *Controller) adoptable(ctx context.Context, run string, t retention.Ticket, lease driver.Lease, machineLost bool) (instead string, err error) {
	as := lease.Adopters()
	if as == nil {
		return "", &core.Error{Kind: core.Unsupported, Op: opAdopt, Object: run, Err: errors.New("its site records for no machine that it controls the run"), Remedy: "Continue it on the machine that has submitted it."}
	}
	by, err := as.Adopt(ctx, driver.Adopter{}, "")
	switch {
	case err != nil:
		return "", err
	case t.Digest == "" || by.Ticket != t.Digest:
		return "", &core.Error{
			Kind: core.Invalid, Op: opAdopt, Object: run, Err: errors.New("its site has another ticket of it on record, or none"),
			Remedy: "Name the file that `bee run --ticket` has made. If it came from another user, do not use it.",
		}
	case by.Installation != "" && by.Installation != c.Store.User() && !machineLost:
		return "", adoptedElsewhere(run, by)
	}
	return by.Installation, nil
}

func adoptedElsewhere(run string, by driver.Adopter) error {
	return runner.AdoptedBy(run, by, "Follow it there. Where that machine is lost, --machine-lost adopts the run all the same.")
}

// adopt puts this installation on record at the site as the one that controls a run, and then
// has the run continue. The caller has the run's lock. kept means that this installation may be
// on record there.
func (c *Controller) adopt(ctx context.Context, run state.Run, sub submission.Submission, lease driver.Lease, open state.Attempt, instead string) (_ state.Run, kept bool, err error) {
	own := c.Adopter()
	by, err := lease.Adopters().Adopt(ctx, own, instead)
	if err != nil {
		return run, true, err
	}
	if by.Installation != own.Installation {
		return run, false, adoptedElsewhere(run.ID, by)
	}
	run.State, run.Suspended, run.Kind, run.Message, run.Remedy = state.Queued, "", "", "", ""
	if open.Launched() {
		run.State = state.Running
	}
	sub.Ticket = submission.Adopted
	if run.Submission, err = json.Marshal(sub); err != nil {
		return run, true, err
	}
	return run, true, c.Store.PutRun(ctx, run)
}

// ReadTicket reads a sealed ticket: that of a run, or those of the cases of an array.
func ReadTicket(file, key string) ([]retention.Ticket, error) {
	if err := retention.CheckTicketKey(key); err != nil {
		return nil, err
	}
	sealed, err := fsutil.ReadFile(filepath.Dir(file), filepath.Base(file), retention.MostTicket)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read the ticket", Object: file, Err: err, Remedy: "Name the file that `bee run --ticket` has made."}
	}
	return retention.OpenTicket(file, sealed, key)
}
