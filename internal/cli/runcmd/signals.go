package runcmd

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"sync"
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

// signalled is what a command carries out or watches, as signals change it.
type signalled struct {
	ui *console.Progress
	// name is that of a question, such as "run ab12", and is begins what is printed of it.
	name, is string
	// saves is what it does where Slurm ends the job that this process runs in.
	saves string
	// stop has it end, and does not wait for that.
	stop func(ctx context.Context)
	// asked reports whether its end is on record, for which another process may have asked; nil:
	// only signals end it.
	asked func(ctx context.Context) bool
	// outlives: it continues here once the terminal is gone. Else this process ends then.
	outlives bool
	// output is locked while the user is asked; nil: the question keeps other output back itself.
	output sync.Locker
}

// watch acts on Ctrl-C, TERM and the closing of the terminal. It returns a context that ends where
// this process leaves what it carries out or watches. done ends the watch.
func (w signalled) watch(ctx context.Context) (_ context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	if w.outlives {
		signal.Notify(signals, syscall.SIGHUP)
	}
	go w.act(ctx, signals, cancel)
	return ctx, func() { signal.Stop(signals); cancel(nil) }
}

// act is the loop of watch, which ends with ctx, or as it cancels that.
func (w signalled) act(ctx context.Context, signals <-chan os.Signal, cancel context.CancelCauseFunc) {
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
			if stopping || !w.stopAsked(ctx) {
				continue
			}
			got, seen = syscall.SIGTERM, true
		case <-ctx.Done():
			return
		}
		want := console.Stop
		switch {
		case got == syscall.SIGHUP: // the terminal is gone: stay as the background controller
			w.ui.Silence()
			continue
		case stopping && seen && got == syscall.SIGTERM:
			seen = false
			continue
		case got == syscall.SIGTERM && !seen && workspace.Allocation() != "" && !w.stopAsked(ctx):
			// Slurm sends it to all that runs in a job which it ends; `bee stop` has put that on record before.
			w.ui.Note("Slurm ends the job that this runs in: " + w.saves + ", if it can; `bee stop` would stop it")
			continue
		case stopping:
			w.ui.Note("leaving; " + w.is + " stopped in the background")
			cancel(errLeave)
			return
		case got == syscall.SIGINT:
			want = w.ask(signals)
			if w.ui.Asks() {
				earlier.interrupt = time.Time{} // an answer makes the next Ctrl-C a new one
			}
		}
		switch want {
		case console.Detach:
			cancel(errDetach)
			return
		case console.Stop:
			stopping = true
			w.ui.Note("stopping " + w.name)
			w.stop(ctx)
		}
	}
}

// ask asks the user what Ctrl-C is to mean.
func (w signalled) ask(signals <-chan os.Signal) console.Answer {
	if w.output != nil {
		w.output.Lock()
		defer w.output.Unlock()
	}
	return w.ui.AskStop(w.name, signals)
}

func (w signalled) stopAsked(ctx context.Context) bool { return w.asked != nil && w.asked(ctx) }

// watchSignals acts on signals for a run that this process controls. It closes stop where the run
// shall end cleanly, and ends the context where this process shall no longer control it.
func watchSignals(ctx context.Context, s *workspace.Session, run string, ui *console.Progress) (context.Context, <-chan struct{}, func()) {
	stop, name := make(chan struct{}), "run "+run
	w := signalled{
		ui: ui, name: name, is: name + " is", saves: name + " saves itself", outlives: true,
		asked: func(ctx context.Context) bool { return stopAsked(ctx, s, run) },
		stop: func(ctx context.Context) {
			if err := s.Store.Requests().AskStop(ctx, run); err != nil {
				s.Log.Warn("record the stop", "err", err)
			}
			close(stop)
		},
	}
	watched, done := w.watch(ctx)
	return watched, stop, done
}

// stopAsked reports whether a run was asked to stop. Where that cannot be read, it is
// looked again soon.
func stopAsked(ctx context.Context, s *workspace.Session, run string) bool {
	r, err := s.Store.Run(ctx, run)
	return err == nil && r.StopAsked
}
