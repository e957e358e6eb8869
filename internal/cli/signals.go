package cli

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// Why a controller in the foreground ends before its run.
var (
	errDetach = errors.New("the run goes on in the background")
	errLeave  = errors.New("left in the midst of stopping; `bee ps` finishes it")
)

// watchSignals makes Ctrl-C, TERM and the closing of the terminal what their
// sender means by them: closing stop ends the run cleanly, the context ends
// when this process shall no longer control it.
func (s *session) watchSignals(ctx context.Context, run string, ui *progress) (context.Context, <-chan struct{}, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		stopping := false
		for {
			var got os.Signal
			select {
			case got = <-signals:
			case <-ctx.Done():
				return
			}
			want := stopIt
			switch {
			case got == syscall.SIGHUP: // the terminal is gone: stay as the background controller
				ui.silence()
				continue
			case stopping:
				ui.note("leaving; `bee ps` finishes the clean-up")
				cancel(errLeave)
				return
			case got == syscall.SIGINT:
				want = ui.askStop(run, signals)
			}
			switch want {
			case detach:
				cancel(errDetach)
				return
			case stopIt:
				stopping = true
				if err := s.Store.AskStop(ctx, run); err != nil {
					s.Log.Warn("record the stop", "err", err)
				}
				ui.note("stopping run " + run)
				close(stop)
			}
		}
	}()
	return ctx, stop, func() { signal.Stop(signals); cancel(nil) }
}
