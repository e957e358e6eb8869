package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

// newDriveCommand is the supervisor of runs, whose names were left for it. There is one for
// all runs of a state directory that were submitted in the same environment, known by a
// key; this command becomes it, or waits until one takes them.
func (a *app) newDriveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drive KEY RUN...", Hidden: true, Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			// Standard error itself, where only a crash is written, has no bound.
			log, err := logfile.Open(controllersLog(a.stateDir))
			if err != nil {
				return err
			}
			defer log.Close()
			defer func(was io.Writer) { a.stderr = was }(a.stderr)
			a.stderr = log
			s, err := a.openQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			return supervisor.ServeOrLeave(c.Context(), s.Store, args[0], args[1:], s.supervise)
		},
	}
}

// supervise is the supervisor of an inbox, until its runs have ended.
func (s *session) supervise(ctx context.Context, inbox string) error {
	mark := supervisor.Begin(ctx, s.Store, s.Log)
	defer mark.Close()
	v := supervisor.Supervisor{Store: s.Store, Log: s.Log, Inbox: inbox, Mark: mark, Control: s.controlOnce}
	return v.Serve(ctx)
}

// controllerLog returns the path of a controller's log in the directory of its run.
func controllerLog(runDir string) string { return filepath.Join(runDir, "controller.log") }

// controlOnce is a run's controller, which prints its end, or its error, to its log.
func (s *session) controlOnce(ctx context.Context, id string, stop *supervisor.Stop, retry time.Duration) error {
	log, err := logfile.Open(controllerLog(s.Store.RunDir(id)))
	if err != nil {
		return err
	}
	defer log.Close()
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return nil // it was removed
	}
	sub, serr := control.SubmissionOf(run)
	abandoned := err == nil && serr == nil && sub.InGuest
	if abandoned {
		stop.Ask()
	}
	own, one := *s.app, *s.Controller
	own.stdout, own.stderr = log, log
	one.Log, one.Report = own.log(), newProgress(&own, false).report
	fmt.Fprintf(log, "bee: %s controller of run %s\n", time.Now().Format(time.RFC3339), id) //nolint:errcheck // a full disk must not end the run
	ended, err := one.Drive(ctx, id, stop.Asked())
	switch {
	case err == nil && abandoned:
		return one.Garbage().Forget(ctx, ended, control.Leaving{})
	case err == nil:
		own.sayEnding(ctx, ended, s)
	default:
		own.printError(err)
		fmt.Fprintf(log, "     It is tried again at %s, and `bee supervise` tries it at once.\n", time.Now().Add(retry).Format("15:04:05")) //nolint:errcheck // a full disk must not end the run
	}
	return err
}
