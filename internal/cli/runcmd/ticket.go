package runcmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// ticketOf makes the empty file of a ticket before anything is submitted, and marks the
// submissions. remove removes the file as long as it is empty.
func ticketOf(jobs []submission.Job, o runOptions) (remove func(), err error) {
	if o.ticket == "" {
		return func() {}, nil
	}
	if err := control.CheckTicket(jobs, workspace.TicketKey()); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.ticket, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		remedy := "Name a file in a directory that exists and that you may write to."
		if errors.Is(err, fs.ErrExist) {
			remedy = "Name a new file, or remove that one once its run is over."
		}
		return nil, &core.Error{Kind: core.Invalid, Op: "make the ticket", Object: o.ticket, Err: err, Remedy: remedy}
	}
	for _, job := range jobs {
		for i := range job.Runs {
			job.Runs[i].Ticket = submission.Sealed
		}
	}
	return func() {
		if info, err := os.Lstat(o.ticket); err == nil && info.Mode().IsRegular() && info.Size() == 0 {
			fsutil.TryRemove(o.ticket)
		}
	}, nil
}

// refuseTicket refuses --ticket without -d.
func (o runOptions) refuseTicket() error {
	if o.ticket == "" || o.detach {
		return nil
	}
	return &core.Error{Kind: core.Invalid, Op: "read", Object: "--ticket " + o.ticket, Err: errors.New("the run does not end on this machine"), Remedy: "Add -d."}
}

// carryToTicket carries out a new run until it needs no controller, and seals its ticket.
func (a *Commands) carryToTicket(ctx context.Context, s *workspace.Session, run state.Run, lock *state.Lock, o runOptions) error {
	defer lock.Unlock()
	s.KeepBinary(ctx)
	ui := console.NewProgress(a.Console, o.quiet)
	ui.Stdout = a.Stderr
	s.Report = ui.Report
	watched, stop, done := watchSignals(ctx, s, run.ID, ui)
	defer done()
	until, end := context.WithCancelCause(watched)
	defer end(nil)
	s.Unattended = func() { end(control.ErrUnattended) }
	ended, err := s.Drive(until, run.ID, stop)
	ui.Clear()
	switch {
	case errors.Is(err, control.ErrUnattended):
		return a.sealTicket(ctx, watched, s, run, lock, o)
	case errors.Is(err, errDetach):
		a.Say("no ticket is made: the run needs a controller still")
		fallthrough
	case err != nil:
		return a.leave(ctx, s, run, lock, o, err)
	}
	a.Say("no ticket is made: the run is over")
	return a.ending(ctx, s, ended, o)
}

// sealTicket writes the ticket of a run, and then leaves the run to the machine that has it. A second
// signal, with which watched ends, has the run continue in the background here.
func (a *Commands) sealTicket(ctx, watched context.Context, s *workspace.Session, run state.Run, lock *state.Lock, o runOptions) error {
	sealed, err := s.Seal(watched, workspace.TicketKey(), run.ID)
	if err == nil {
		err = fsutil.WriteFile(o.ticket, sealed, 0o600)
	}
	if err == nil {
		run, err = s.HandOver(ctx, run.ID)
	}
	if err != nil {
		s.LeaveBehind(ctx, run.ID, lock)
		return &core.Error{Kind: core.KindOf(err), Op: "make the ticket", Object: o.ticket, Err: err, Remedy: "The run continues in the background of this machine: `bee wait " + run.ID + "` waits for its end."}
	}
	return a.printSealed([]sealedJob{{run.ID, run.Name, run.State, o.ticket}}, o)
}

// sealedJob is a job whose ticket is made, a run or an array, as JSON has it.
type sealedJob struct {
	ID     string         `json:"id"`
	Name   string         `json:"name"`
	State  state.RunState `json:"state"`
	Ticket string         `json:"ticket"`
}

// printSealed prints what was sealed, and what it is called there.
func (a *Commands) printSealed(jobs []sealedJob, o runOptions) error {
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.ID
	}
	err := o.results.WriteLeft(ids, string(state.Suspended))
	if o.asJSON {
		var view any = jobs
		if len(jobs) == 1 {
			view = jobs[0]
		}
		return errors.Join(err, a.WriteJSON(view))
	}
	for _, id := range ids {
		_, perr := fmt.Fprintln(a.Stdout, id)
		err = errors.Join(err, perr)
	}
	if !o.quiet {
		a.Say("it needs this machine no more; `bee wait --ticket %s` fetches it on any machine that has the key and site access", o.ticket)
	}
	return err
}
