package runcmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/supervisor"
)

// Why a controller in the foreground ends before its run.
var (
	errDetach = errors.New("the run continues in the background")
	errLeave  = errors.New("left in the midst of stopping; the background finishes it")
)

// One sender may send a signal twice at once: timeout(1) signals its child, then the group
// that it leads, and so do some batch systems. Within these times that is one signal. A
// person who presses Ctrl-C twice takes longer.
const (
	oneTerm = 2 * time.Second
	oneInt  = 100 * time.Millisecond
)

// repeats leaves out signals that one sender has sent several times at once.
type repeats struct{ term, interrupt time.Time }

func (r *repeats) again(got os.Signal, now time.Time) bool {
	last, one := &r.interrupt, oneInt
	switch got {
	case syscall.SIGTERM:
		last, one = &r.term, oneTerm
	case syscall.SIGINT:
	default:
		return false
	}
	if !last.IsZero() && now.Sub(*last) < one {
		return true
	}
	*last = now
	return false
}

// watchSignals acts on Ctrl-C, TERM and the closing of the terminal. It closes stop where the
// run shall end cleanly, and ends the context where this process shall no longer control it.
func watchSignals(ctx context.Context, s *workspace.Session, run string, ui *console.Progress) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		look := time.NewTicker(supervisor.StopInterval)
		defer look.Stop()
		// A stop that was seen before its signal came must not make that a second one.
		stopping, seen := false, false
		var earlier repeats
		for {
			var got os.Signal
			select {
			case got = <-signals:
				if earlier.again(got, time.Now()) {
					continue
				}
			case <-look.C:
				if stopping || !stopAsked(ctx, s, run) {
					continue
				}
				got, seen = syscall.SIGTERM, true
			case <-ctx.Done():
				return
			}
			want := console.Stop
			switch {
			case got == syscall.SIGHUP: // the terminal is gone: stay as the background controller
				ui.Silence()
				continue
			case stopping && seen && got == syscall.SIGTERM:
				seen = false
				continue
			case got == syscall.SIGTERM && !seen && fromSlurm(ctx, s, run):
				ui.Note("Slurm ends the job that this runs in: run " + run + " saves itself, if it can; `bee stop` would stop it")
				continue
			case stopping:
				ui.Note("leaving; run " + run + " is stopped in the background")
				cancel(errLeave)
				return
			case got == syscall.SIGINT:
				want = ui.AskStop("run "+run, signals)
				if ui.Asks() {
					earlier.interrupt = time.Time{} // an answer makes the next Ctrl-C a new one
				}
			}
			switch want {
			case console.Detach:
				cancel(errDetach)
				return
			case console.Stop:
				stopping = true
				if err := s.Store.Requests().AskStop(ctx, run); err != nil {
					s.Log.Warn("record the stop", "err", err)
				}
				ui.Note("stopping run " + run)
				close(stop)
			}
		}
	}()
	return ctx, stop, func() { signal.Stop(signals); cancel(nil) }
}

// fromSlurm means that TERM has come from Slurm, which sends it to all that runs in a job
// which it ends: `bee stop` has put that on record before.
func fromSlurm(ctx context.Context, s *workspace.Session, run string) bool {
	return workspace.Allocation() != "" && !stopAsked(ctx, s, run)
}

// stopAsked reports whether a run was asked to stop. Where that cannot be read, it is
// looked again soon.
func stopAsked(ctx context.Context, s *workspace.Session, run string) bool {
	r, err := s.Store.Run(ctx, run)
	return err == nil && r.StopAsked
}
