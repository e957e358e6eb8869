package runcmd

import (
	"context"
	"errors"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// severalTicket are jobs that were submitted with one ticket: an array, or those of a Beefile.
type severalTicket struct {
	a    jobsRunner
	s    *workspace.Session
	jobs []submittedJob
	o    runOptions
}

// carryJobs is carry of the jobs of a Beefile.
func (t severalTicket) carryJobs(ctx context.Context) error {
	t.s.KeepBinary(ctx)
	if !t.o.quiet {
		t.a.sayOfJobs(ctx, t.s, t.jobs)
		for _, job := range t.jobs {
			t.a.Say("%s", job.text())
		}
		t.a.Say("their ticket is made once each run computes, is over, is started by its site, or waits for another job")
	}
	return t.carry(ctx, func(runs []state.Run) error {
		return jobsWatch(t).ending(ctx, runs)
	})
}

// carry carries the jobs out until they need no controller, and seals their ticket. over reports how
// they ended where there is none, as they are over.
func (t severalTicket) carry(ctx context.Context, over func(runs []state.Run) error) error {
	watched, stop, done := t.signals(ctx)
	defer done()
	sealing := control.Sealing{
		Controller: t.s.Controller, Jobs: t.ids(), Key: workspace.TicketKey(), Stop: stop,
		Write: func(sealed []byte) error { return fsutil.WriteFile(t.o.ticket, sealed, 0o600) },
	}
	runs, sealed, err := sealing.Seal(watched)
	if err != nil {
		return t.left(ctx, err)
	}
	if !sealed {
		t.a.Say("no ticket is made: all of it is over")
		return over(runs)
	}
	ended, waits := 0, 0
	for _, run := range runs {
		attempts, err := t.s.Store.Attempts(ctx, run.ID)
		if err != nil {
			return err
		}
		switch {
		case run.State.Final():
			ended++
		case len(attempts) == 0:
			waits++
		}
	}
	if ended > 0 && !t.o.quiet {
		t.a.Say("%d of %s over already. Outputs of these are here", ended, console.CountText(len(runs), "run"))
	}
	if waits > 0 && !t.o.quiet {
		t.a.Say("%d of %s not begun: the machine that adopts the ticket begins them. It needs their inputs that no other job makes", waits, console.CountText(len(runs), "run"))
	}
	return t.a.printSealed(t.sealed(runs), t.o)
}

// left has the jobs continue in the background, of which no ticket is made for the reason err.
func (t severalTicket) left(ctx context.Context, err error) error {
	berr := beginJobs(context.WithoutCancel(ctx), t.s, t.jobs)
	switch {
	case errors.Is(err, errLeave):
		return errors.Join(console.Exit(console.ExitStopped), berr)
	case errors.Is(err, errDetach):
		t.a.Say("no ticket is made: a controller is needed still")
		return errors.Join(t.a.printDetached(t.jobs, t.o), berr)
	}
	err = errors.Join(err, berr)
	return &core.Error{
		Kind: core.KindOf(err), Op: "make the ticket", Object: t.o.ticket, Err: err,
		Remedy: "All of it continues in the background of this machine: `bee wait " + strings.Join(t.ids(), " ") + "` waits for its end.",
	}
}

// ids are those of the jobs.
func (t severalTicket) ids() (ids []string) {
	for _, job := range t.jobs {
		ids = append(ids, job.id())
	}
	return ids
}

// sealed returns what is printed of the jobs, whose runs are as they are given.
func (t severalTicket) sealed(runs []state.Run) (list []sealedJob) {
	now := make(map[string]state.RunState, len(runs))
	for _, run := range runs {
		now[run.ID] = run.State
	}
	for _, job := range t.jobs {
		one := sealedJob{ID: job.id(), Name: job.name(), State: state.Suspended, Ticket: t.o.ticket}
		if job.first.Array == nil {
			one.State = now[one.ID]
		}
		list = append(list, one)
	}
	return list
}

// signals returns a channel that is closed by the first Ctrl-C or TERM, which ends the jobs, and a
// context that ends with the second. Once the terminal closes, all continues.
func (t severalTicket) signals(ctx context.Context) (context.Context, <-chan struct{}, func()) {
	stop := make(chan struct{})
	name := "array " + t.jobs[0].id()
	w := signalled{name: name, is: name + " is", saves: "its cases save themselves"}
	if len(t.jobs) > 1 {
		w = signalled{name: "all " + console.CountText(len(t.jobs), "job"), is: "the jobs are", saves: "the jobs save themselves"}
	}
	w.ui, w.outlives, w.stop = console.NewProgress(t.a.Console, t.o.quiet), true, func(context.Context) { close(stop) }
	watched, done := w.watch(ctx)
	return watched, stop, done
}
