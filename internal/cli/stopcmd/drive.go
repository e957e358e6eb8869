package stopcmd

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

// DriveCommand is the supervisor of runs, whose names were left for it. There is one for
// all runs of a state directory that were submitted in the same environment, known by a
// key; this command becomes it, or waits until one takes them.
func (a *Commands) DriveCommand() *cobra.Command {
	return &cobra.Command{
		Use: "drive KEY RUN...", Hidden: true, Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			// Standard error itself, where only a crash is written, has no bound.
			log, err := logfile.Open(workspace.ControllersLog(a.StateDir))
			if err != nil {
				return err
			}
			defer log.Close()
			defer func(was io.Writer) { a.Stderr = was }(a.Stderr)
			a.Stderr = log
			s, err := a.OpenQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			s.KeepBinary(c.Context())
			return supervisor.ServeOrLeave(c.Context(), s.Store, args[0], args[1:], func(ctx context.Context, inbox string) error { return serveInbox(ctx, s, inbox, a.text) })
		},
	}
}

// serveInbox is the supervisor of an inbox, until its runs have ended.
func serveInbox(ctx context.Context, s *workspace.Session, inbox string, text runText) error {
	mark := supervisor.Begin(ctx, s.Store, s.Log)
	defer mark.Close()
	controller := func(ctx context.Context, id string, stop *supervisor.Stop, retry time.Duration) error {
		return controlOnce(ctx, s, id, stop, retry)
	}
	notifications := func(ctx context.Context, id string) error { return sendNotifications(ctx, s, id, text) }
	v := supervisor.Supervisor{Store: s.Store, Log: s.Log, Inbox: inbox, Mark: mark, Control: controller, Notify: notifications}
	return v.Serve(ctx)
}

// controlOnce is a run's controller, which prints its end, or its error, to its log.
func controlOnce(ctx context.Context, s *workspace.Session, id string, stop *supervisor.Stop, retry time.Duration) error {
	log, err := logfile.Open(workspace.ControllerLog(s.Store.RunDir(id)))
	if err != nil {
		return err
	}
	defer log.Close()
	run, err := s.Store.Run(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return nil // it was removed
	}
	sub, serr := submission.Of(run)
	abandoned := err == nil && serr == nil && sub.InGuest
	if abandoned {
		stop.Ask()
	}
	own, one := s.Workspace.WritingTo(log, log), *s.Controller
	one.Log, one.Report = own.Log(), console.NewProgress(own.Console, false).Report
	fmt.Fprintf(log, "bee: %s controller of run %s\n", time.Now().Format(time.RFC3339), id)
	ended, err := one.Drive(ctx, id, stop.Asked())
	switch {
	case err == nil && abandoned:
		return one.Garbage().Forget(ctx, ended, control.Leaving{})
	case err == nil:
		own.SayEnding(ctx, ended, s)
	default:
		own.PrintError(err)
		fmt.Fprintf(log, "     It is tried again at %s, and `bee supervise` tries it at once.\n", time.Now().Add(retry).Format("15:04:05"))
	}
	return err
}
