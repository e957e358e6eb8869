package runcmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// arrayTicket is an array that was submitted with a ticket.
type arrayTicket struct {
	arrayRunner
	s     *workspace.Session
	array *submission.ArrayCase
	runs  []state.Run
	o     runOptions
}

// carry carries the array out until it needs no controller, and seals its ticket.
func (a arrayTicket) carry(ctx context.Context, sub *submission.Submission) error {
	a.s.KeepBinary(ctx)
	if !a.o.quiet {
		a.warnOf(sub.Job.SkippedSites(sub.Sites))
		a.sayOf(ctx, a.s, sub)
		a.Say("array %s of %s: %s. Its ticket is made once each computes, is over, or is started by its site", a.array.ID, a.array.Name, console.CountText(len(a.runs), "case"))
	}
	watched, stop, done := a.signals(ctx)
	defer done()
	sealing := control.ArraySealing{
		Controller: a.s.Controller, Array: a.array.ID, Key: workspace.TicketKey(), Stop: stop,
		Write: func(sealed []byte) error { return fsutil.WriteFile(a.o.ticket, sealed, 0o600) },
	}
	runs, sealed, err := sealing.Seal(watched)
	if err != nil {
		due, derr := a.s.Store.Arrays().Due(context.WithoutCancel(ctx), a.array.ID)
		if derr == nil {
			derr = a.s.Background(due...)
		}
		if errors.Is(err, errLeave) {
			return errors.Join(console.Exit(console.ExitStopped), derr)
		}
		err = errors.Join(err, derr)
		return &core.Error{
			Kind: core.KindOf(err), Op: "make the ticket", Object: a.o.ticket, Err: err,
			Remedy: "The array continues in the background of this machine: `bee wait " + a.array.ID + "` waits for its end.",
		}
	}
	if !sealed {
		a.Say("no ticket is made: all cases are over")
		return a.await(ctx, a.s, a.array.ID, runs, a.o)
	}
	over := 0
	for _, run := range runs {
		if run.State.Final() {
			over++
		}
	}
	if over > 0 && !a.o.quiet {
		a.Say("%s of %d is over already: its outputs are here", console.CountText(over, "case"), len(runs))
	}
	return a.printSealed(a.array.ID, a.array.Name, state.Suspended, a.o)
}

// signals returns a channel that is closed by the first Ctrl-C or TERM, which ends the cases, and a
// context that ends with the second. Once the terminal closes, all continues.
func (a arrayTicket) signals(ctx context.Context) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop, got := make(chan struct{}), make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		for stopping := false; ; {
			select {
			case s := <-got:
				switch {
				case s == syscall.SIGHUP:
				case stopping:
					cancel(errLeave)
					return
				default:
					stopping = true
					a.Say("stopping array %s", a.array.ID)
					close(stop)
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return ctx, stop, func() { signal.Stop(got); cancel(nil) }
}
