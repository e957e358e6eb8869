package recordcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/logfile"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/spf13/cobra"
)

// LogsOptions are what bee logs shows, and how.
type LogsOptions struct {
	Follow     bool
	timestamps bool
	attempt    int
	Node       int
	controller bool
	asJSON     bool
	tail       int // -1: everything
	failed     bool
	since      console.Age
	// run is the run's id where the output is one of several runs.
	run string
	// fresh: the run has just been submitted, so that it need not have begun yet, nor have a
	// controller. quiet: nothing but the output is shown.
	fresh, quiet bool
	// until has the context of each of several runs, which may end before that of all; nil: none has.
	until func(run string) context.Context
	// packed is the number of a case that shares the output of its pack; 0: it is all shown.
	packed int
}

// LogsCommand returns the command `logs`.
func (a *Commands) LogsCommand() *cobra.Command {
	var o LogsOptions
	c := &cobra.Command{
		Use: "logs RUN...", Short: "Show the output of runs", Args: cobra.MinimumNArgs(1), ValidArgsFunction: a.RunsTo(state.ToSee),
		Long: `Show the output of a run's task, on standard output and standard error. A run
that moved or was retried has several attempts, which are shown in order. With
--node, show the log of one of BEE's nodes. Of several runs, each line has the name of its
run before it. An array means all of its cases.`,
		Example: "  bee logs -f --tail 20 lysozyme\n  bee logs --attempt 2 lysozyme\n  bee logs -f lysozyme salt-water",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 1 || o.failed {
				return a.logsOfSeveral(c.Context(), args, o)
			}
			several, err := a.isArray(c.Context(), args[0])
			if err != nil {
				return err
			}
			if several {
				return a.logsOfSeveral(c.Context(), args, o)
			}
			return a.logs(c.Context(), args[0], o)
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.Follow, "follow", "f", false, "continue until the run ends")
	f.BoolVarP(&o.timestamps, "timestamps", "t", false, "put the time before each piece")
	f.IntVar(&o.tail, "tail", -1, "show only the last `number` of lines of what was written before")
	f.Var(&o.since, "since", "show only what was written in this last `time`, such as 10m")
	f.IntVar(&o.attempt, "attempt", 0, "show the attempt with this `number`, with --follow those after it, too (default all; with --node the last)")
	f.IntVar(&o.Node, "node", -1, "show the log of the node with this `rank`")
	f.BoolVar(&o.controller, "controller", false, "show the log of the background controller")
	f.BoolVar(&o.failed, "failed", false, "only of runs that have ended without success, such as the failed cases of an array")
	f.BoolVar(&o.asJSON, "json", false, "write each piece as JSON, on a line of its own")
	return c
}

func (a *Commands) logs(ctx context.Context, word string, o LogsOptions) error {
	if own := o.controller || o.Node >= 0; own && (o.Follow || o.timestamps || o.tail >= 0 || o.since != 0) || o.controller && (o.Node >= 0 || o.attempt != 0) {
		return &core.Error{
			Kind: core.Invalid, Op: "show logs of", Object: word, Err: errors.New("--follow, --timestamps, --tail and --since are for what the task writes, and a controller has neither nodes nor attempts"),
			Remedy: "Leave them out: bee's own logs are shown as they are now, with the time in each line.",
		}
	}
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	meaning := state.ToSee
	if o.Follow {
		meaning = state.ToReach
	}
	run, err := s.Store.FindRun(ctx, word, meaning)
	if err != nil {
		return err
	}
	if run.Case.Pack != "" && !o.controller && o.Node < 0 {
		o.packed = run.Case.Number
		if run, err = s.Store.Run(ctx, run.Case.Pack); err != nil {
			return err
		}
	}
	if o.controller {
		log := workspace.ControllerLog(s.Store.RunDir(run.ID))
		if workspace.There(logfile.Older(log)) {
			if err := a.copyLog(logfile.Older(log), PieceView{Stream: "controller"}, o); err != nil {
				return err
			}
		}
		return a.copyLog(log, PieceView{Stream: "controller"}, o)
	}
	attempts, err := s.Store.Attempts(ctx, run.ID)
	if err != nil {
		return err
	}
	if o.attempt < 0 || o.attempt > len(attempts) {
		return &core.Error{
			Kind: core.NotFound, Op: "find attempt", Object: fmt.Sprintf("%d of run %s", o.attempt, run.ID), Err: fmt.Errorf("it has had %d", len(attempts)),
			Remedy: "`bee show " + run.ID + "` lists them; without --attempt all are shown.",
		}
	}
	if o.Node >= 0 {
		sub, err := submission.Of(run)
		if err != nil {
			return err
		}
		if o.attempt == 0 {
			o.attempt = len(attempts)
		}
		return a.copyLog(control.NodeLog(s.Store.RunDir(run.ID), o.attempt, control.NodeLogRank(&sub.Job, o.Node)), PieceView{Attempt: o.attempt, Stream: "node"}, o)
	}
	switch {
	case o.fresh:
	case run.State == state.Queued && !slices.ContainsFunc(attempts, func(at state.Attempt) bool { return at.Launched() }):
		a.Say("run %s has not begun; `bee show %s` shows what it waits for", run.ID, run.ID)
	case run.State.Final() && len(attempts) == 0:
		a.Say("run %s never began; `bee show %s` shows why", run.ID, run.ID)
	}
	if o.Follow && !o.fresh {
		if err := s.WarnUnsupervised(ctx, func(id string) bool { return id == run.ID }); err != nil {
			return err
		}
	}
	if err := a.TaskOutput(ctx, s, run.ID, o); err != nil {
		return err
	}
	if run, err = s.Store.Run(ctx, run.ID); err == nil && o.Follow && run.State.Final() && !o.asJSON && !o.quiet {
		a.SayEnding(ctx, run, s)
	}
	return err
}

// PieceView is a piece of a log as --json gives it.
type PieceView struct {
	Run     string     `json:"run,omitempty"` // of several
	Attempt int        `json:"attempt,omitempty"`
	Time    *time.Time `json:"time,omitempty"` // a line of bee's own has it within
	Stream  string     `json:"stream"`
	// Data is the piece, or Base64 where it is not UTF-8, as when it ends within a
	// character.
	Data   string `json:"data,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

// writePiece writes a piece as JSON on one line, so that it can be followed.
func (a *Commands) writePiece(v PieceView, data []byte) error {
	if utf8.Valid(data) {
		v.Data = string(data)
	} else {
		v.Base64 = data
	}
	return json.NewEncoder(a.Stdout).Encode(v)
}

// copyLog shows a log of bee's own; in JSON line by line, which all are as v says.
func (a *Commands) copyLog(path string, v PieceView, o LogsOptions) error {
	f, err := openPlain(path)
	if errors.Is(err, os.ErrNotExist) {
		return &core.Error{
			Kind: core.NotFound, Op: "read log", Object: path, Err: errors.New("there is none (yet)"),
			Remedy: "A node's log is fetched when its attempt ends. A run that `bee run` itself carries has no log of a controller.",
		}
	}
	if err != nil {
		return err
	}
	defer f.Close()
	for lines := bufio.NewReaderSize(f, longestPiece); ; {
		line, err := lines.ReadSlice('\n') // of a longer one, a part
		if len(line) > 0 {
			show := func() error { return a.writePiece(v, line) }
			if !o.asJSON {
				show = func() error { _, err := io.WriteString(a.Stdout, output.Printable(string(line))); return err }
			}
			if err := show(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// longestPiece is how much of a line of a log is shown at once.
const longestPiece = 64 << 10

// openPlain opens a log in a run's directory. A site may have left a link or a FIFO in
// its place.
func openPlain(path string) (*os.File, error) {
	root, err := fsutil.OpenRoot(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Open(filepath.Base(path))
}

// TaskOutput shows the output of one attempt after the other: from the log that
// was collected, and that of the last from its head while there is one. A line that
// breaks in between loses nothing.
func (a *Commands) TaskOutput(ctx context.Context, s *workspace.Session, id string, o LogsOptions) (err error) {
	var offset, before int64
	reported, n := false, max(o.attempt, 1)
	write := func(n int, f tasklog.Frame) error { return a.writeFrame(n, f, o) }
	if o.tail >= 0 {
		t := newTail(o.tail, write)
		defer func() {
			t.end()
			err = errors.Join(err, t.lastError())
		}()
		write = t.piece
	}
	var begin time.Time
	if o.since > 0 {
		begin = time.Now().Add(-time.Duration(o.since))
	}
	show := func(f tasklog.Frame) error {
		if f.Time.Before(begin) || o.packed > 0 && f.Case != o.packed {
			offset = f.Next
			return nil
		}
		if err := write(n, f); err != nil {
			return unshown{err}
		}
		offset = f.Next
		return nil
	}
	rest := fsutil.Backoff{First: shortRest, Longest: longRest}
	for { // each look may make a connection
		if offset != before {
			before = offset
			rest.Reset()
		}
		// In this order: of a run that is over, all attempts are known, and of an
		// attempt that has one after it, all output is on the submitting machine that ever will be.
		run, err := s.Store.Run(ctx, id)
		if err != nil {
			return err
		}
		attempts, err := s.Store.Attempts(ctx, id)
		if err != nil {
			return err
		}
		home, past := control.OutputLog(s.Store.RunDir(id), n), n < len(attempts)
		if workspace.There(home) {
			if f, err := openPlain(home); err != nil { // a site may have left a link or a FIFO in its place
				return err
			} else if err := errors.Join(f.Close(), tasklog.Read(ctx, home, offset, show)); err != nil {
				return err
			}
		} else if !past {
			err := liveOutput(ctx, s, run, n, offset, o.Follow, show)
			if !o.Follow && !workspace.There(home) || errors.As(err, new(unshown)) {
				return err
			}
			if workspace.There(home) { // now
				continue
			}
			if core.IsKind(err, core.Transient) && !reported {
				reported = true
				a.PrintError(err)
			}
		}
		switch {
		case past && (o.attempt == 0 || o.Follow):
			n, offset = n+1, 0
			continue
		case !o.Follow || run.State.Final():
			return nil
		}
		if err := rest.Wait(ctx); err != nil {
			return err
		}
	}
}

// What is between two looks for output that is followed.
const (
	shortRest = 100 * time.Millisecond
	longRest  = time.Second
)

// unshown is an error of writing what there is.
type unshown struct{ error }

func (u unshown) Unwrap() error { return u.error }

// liveOutput shows the output of a run's last attempt, the nth, from its head;
// nothing where there is none yet, or any more, or another attempt has begun. Its
// error is Transient where there may be output that cannot be had now.
func liveOutput(ctx context.Context, s *workspace.Session, run state.Run, n int, offset int64, follow bool, show func(tasklog.Frame) error) error {
	conn, err := s.DialNode(ctx, run, 0)
	if err != nil {
		if !core.IsKind(err, core.Transient) { // nobody is there: not yet, or no more
			return nil
		}
		attempts, aerr := s.Store.Attempts(ctx, run.ID)
		if aerr != nil || len(attempts) != n || !attempts[n-1].Launched() || run.State.Final() {
			return aerr
		}
		return &core.Error{
			Kind: core.Transient, Op: "reach the output of", Object: fmt.Sprintf("run %s on site %s", run.ID, attempts[n-1].Site), Err: err,
			Remedy: "It is kept there. Ask again later; `bee show " + run.ID + "` shows what the run waits for.",
		}
	}
	head, err := s.Connect(conn)
	if err != nil {
		return err
	}
	defer head.Close()
	if attempts, err := s.Store.Attempts(ctx, run.ID); err != nil || len(attempts) != n {
		return err
	}
	return head.Output(ctx, offset, follow, show)
}

// writeFrame shows a piece of the nth attempt's output.
func (a *Commands) writeFrame(n int, f tasklog.Frame, o LogsOptions) error {
	w, stream := a.Stdout, "stdout"
	if f.Stream == tasklog.Stderr {
		w, stream = a.Stderr, "stderr"
	}
	if o.asJSON {
		return a.writePiece(PieceView{Run: o.run, Attempt: n, Time: &f.Time, Stream: stream}, f.Data)
	}
	if o.timestamps {
		if _, err := fmt.Fprintf(w, "%s ", f.Time.Local().Format("2006-01-02T15:04:05.000")); err != nil {
			return err
		}
	}
	_, err := w.Write(f.Data)
	return err
}
