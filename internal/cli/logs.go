package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/spf13/cobra"
)

type logsOptions struct {
	follow     bool
	timestamps bool
	attempt    int
	node       int
	controller bool
}

func (a *app) newLogsCommand() *cobra.Command {
	var o logsOptions
	c := &cobra.Command{Use: "logs RUN", Short: "Show a run's output", Args: cobra.ExactArgs(1), ValidArgsFunction: a.completeRuns,
		Long: `Show the output of a run's task: its standard output on ours, its standard
error on ours. With --node the log of one of BEE's own nodes instead.`,
		RunE: func(c *cobra.Command, args []string) error { return a.logs(c.Context(), args[0], o) }}
	f := c.Flags()
	f.BoolVarP(&o.follow, "follow", "f", false, "go on until the run ends")
	f.BoolVarP(&o.timestamps, "timestamps", "t", false, "put the time before each piece")
	f.IntVar(&o.attempt, "attempt", 0, "`number` of the attempt (default the last)")
	f.IntVar(&o.node, "node", -1, "show the log of the node with this `rank`")
	f.BoolVar(&o.controller, "controller", false, "show the log of the background controller")
	return c
}

func (a *app) logs(ctx context.Context, word string, o logsOptions) error {
	s, err := a.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	meaning := state.ToSee
	if o.follow {
		meaning = state.ToReach
	}
	run, err := s.Store.FindRun(ctx, word, meaning)
	if err != nil {
		return err
	}
	if o.controller {
		return a.copyFile(s.Store.RunDir(run.ID) + "/controller.log")
	}
	if o.attempt == 0 {
		attempts, err := s.Store.Attempts(ctx, run.ID)
		if err != nil {
			return err
		}
		if o.attempt = len(attempts); o.attempt == 0 && !o.follow {
			return nil // nothing was started yet
		}
	}
	if o.node >= 0 {
		sub, err := control.SubmissionOf(run)
		if err != nil {
			return err
		}
		return a.copyFile(control.NodeLog(s.Store.RunDir(run.ID), o.attempt, control.NodeLogRank(&sub.Job, o.node)))
	}
	return a.taskOutput(ctx, s, run, o)
}

func (a *app) copyFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "read log", Object: path, Err: errors.New("there is none (yet)")}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(a.stdout, f)
	return err
}

// taskOutput shows the output from the head while there is one, and from the
// log that came home afterwards; a line that breaks in between loses nothing.
func (a *app) taskOutput(ctx context.Context, s *session, run state.Run, o logsOptions) error {
	var offset int64
	show := func(f tasklog.Frame) error {
		offset = f.Next
		return a.writeFrame(f, o.timestamps)
	}
	for {
		home := control.OutputLog(s.Store.RunDir(run.ID), o.attempt)
		if _, err := os.Stat(home); err == nil && o.attempt > 0 {
			if err := tasklog.Read(ctx, home, offset, show); err != nil || !o.follow {
				return err
			}
		} else if conn, err := s.DialNode(ctx, run, 0); err == nil {
			head, err := s.Connect(conn)
			if err != nil {
				return err
			}
			err = head.Output(ctx, offset, o.follow, show)
			head.Close()
			if !o.follow {
				return err
			}
		} else if !o.follow {
			return nil
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
		var err error
		if run, err = s.Store.Run(ctx, run.ID); err != nil || run.State.Final() {
			o.follow = false // once more, for what came in between
			if err != nil {
				return err
			}
		}
		if attempts, err := s.Store.Attempts(ctx, run.ID); err == nil && o.attempt < len(attempts) {
			if o.attempt > 0 {
				offset = 0
			}
			o.attempt = len(attempts)
		}
	}
}

func (a *app) writeFrame(f tasklog.Frame, stamp bool) error {
	w := a.stdout
	if f.Stream == tasklog.Stderr {
		w = a.stderr
	}
	if stamp {
		fmt.Fprintf(w, "%s ", f.Time.Local().Format("2006-01-02T15:04:05.000"))
	}
	_, err := w.Write(f.Data)
	return err
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
