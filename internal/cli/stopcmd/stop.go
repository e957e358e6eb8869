package stopcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/supervisor"
	"github.com/spf13/cobra"
)

type stopOptions struct {
	noWait   bool
	all      bool
	siteLost bool
	without  bool
	asJSON   bool
	seen     workspace.Seen
}

// StopCommand returns the command `stop`.
func (a *Commands) StopCommand() *cobra.Command {
	var o stopOptions
	c := &cobra.Command{
		Use: "stop RUN...", Short: "Stop runs cleanly", ValidArgsFunction: a.RunsTo(state.ToEnd),
		Long: `Stop runs: the task gets TERM, and KILL after a grace. Existing outputs are
collected, and hosts are released. RUN is an id, its first letters (four or more),
or the name of a run that is not over. An array means all of its cases.

A run whose site does not answer ends once it does. With --site-lost it ends now.
What may continue there, and what is lost, is printed. It is removed when the site
answers again.

A run keeps its hosts until its outputs are stored. Where they can never be stored,
--without-outputs ends the run and removes them.`,
		Args: cobra.ArbitraryArgs, // see namesOr
		RunE: func(c *cobra.Command, args []string) error { return a.stop(c.Context(), args, o) },
	}
	c.Flags().BoolVar(&o.noWait, "no-wait", false, "do not wait for the end")
	c.Flags().BoolVar(&o.all, "all", false, "every run that is not over")
	c.Flags().BoolVar(&o.siteLost, "site-lost", false, "do not wait for a site that does not answer: it is lost")
	c.Flags().BoolVar(&o.without, "without-outputs", false, "do not collect outputs: they are removed")
	o.seen.Flag(c.Flags())
	c.MarkFlagsMutuallyExclusive("all", "attempt")
	c.MarkFlagsMutuallyExclusive("all", "without-outputs") // of one run at a time one knows what is lost
	c.MarkFlagsMutuallyExclusive("site-lost", "without-outputs")
	c.Flags().BoolVar(&o.asJSON, "json", false, console.JSONHelp)
	return c
}

func (a *Commands) stop(ctx context.Context, words []string, o stopOptions) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var runs []state.Run
	if err := namesOr("--all", o.all, words); err != nil {
		return err
	}
	if o.all {
		runs, err = s.Store.Runs(ctx, state.Filter{Active: true})
		runs = slices.DeleteFunc(runs, func(r state.Run) bool { return r.Case.Pack != "" }) // they end with their packs
	} else {
		runs, err = s.Named(ctx, words, state.ToEnd)
	}
	if err != nil {
		return err
	}
	if o.seen.Given() && len(runs) != 1 {
		return &core.Error{Kind: core.Invalid, Op: "stop", Object: console.CountText(len(runs), "run"), Err: errors.New("--attempt is of one run"), Remedy: "Name one run, or leave --attempt out."}
	}
	t := a.NewTally(o.asJSON)
	endRuns(ctx, s, runs, o, func(run state.Run, err error) { t.Add(console.DoneView{ID: run.ID, State: run.State}, err) })
	return t.End()
}

// StopNamed has runs and arrays end that are not over, and does not wait for it. One that was
// removed, or cannot be stopped, keeps none of the others from ending.
func (a *Commands) StopNamed(ctx context.Context, s *workspace.Session, words []string) error {
	var wrong error
	add := func(_ state.Run, err error) {
		if !core.IsKind(err, core.NotFound) {
			wrong = errors.Join(wrong, err)
		}
	}
	for _, word := range words {
		runs, err := s.Named(ctx, []string{word}, state.ToEnd)
		if err != nil {
			add(state.Run{}, err)
			continue
		}
		runs = slices.DeleteFunc(runs, func(r state.Run) bool { return r.State.Final() })
		endRuns(ctx, s, runs, stopOptions{noWait: true}, add)
	}
	return wrong
}

// holdLost ends the waiting of a run that shall end for a site that does not
// answer. Where it waits for none, it only ends.
func holdLost(ctx context.Context, s *workspace.Session, run state.Run) error {
	text, err := s.HoldLost(ctx, run, nil)
	if core.IsKind(err, core.Invalid) {
		return nil
	}
	if err == nil {
		s.Workspace.Say("run %s: %s", run.ID, text)
	}
	return err
}

// endRuns stops runs that are not over, all at once, and waits for one after the other.
// It reports how each stands then, and what has kept it from ending.
func endRuns(ctx context.Context, s *workspace.Session, runs []state.Run, o stopOptions, notify func(state.Run, error)) {
	errs := make([]error, len(runs))
	atOnce, err := stopWaiting(ctx, s, runs)
	if err != nil {
		notify(state.Run{}, err)
		return
	}
	for i, run := range slices.Backward(runs) { // of an array, none begins in place of one that ends
		if !run.State.Final() && !atOnce[run.ID] {
			errs[i] = askEnd(ctx, s, run, o)
		}
	}
	for i, run := range runs {
		err := errs[i]
		switch {
		case atOnce[run.ID]:
			run.State = state.Stopped
		case run.State.Final():
			s.Workspace.Say("run %s is over already (%s)", run.ID, run.State)
		case err == nil && !o.noWait:
			if run, err = awaitEnd(ctx, s, run); err == nil {
				s.Workspace.Say("run %s: %s", run.ID, run.State)
			}
		}
		notify(run, err)
	}
}

// stopWaiting ends those of some runs that are cases of arrays, and whose turn has not come,
// where all cases of their array are to end. It returns their ids.
func stopWaiting(ctx context.Context, s *workspace.Session, runs []state.Run) (map[string]bool, error) {
	live := map[string]int{} // cases among the runs, by array
	for _, run := range runs {
		if run.Case.Array != "" && !run.State.Final() {
			live[run.Case.Array]++
		}
	}
	stopped := map[string]bool{}
	for array, among := range live {
		whole, err := s.Store.Arrays().Array(ctx, array)
		if err != nil {
			return nil, err
		}
		if among < whole.Cases()-whole.Over() {
			continue
		}
		ids, err := s.StopWaiting(ctx, array)
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			stopped[id] = true
		}
		if len(ids) > 0 {
			s.Workspace.Say("array %s (%s): %s had not begun, and stopped", array, whole.Name, console.CountText(len(ids), "case"))
		}
	}
	return stopped, nil
}

// askEnd has a run end, and does not wait for it.
func askEnd(ctx context.Context, s *workspace.Session, run state.Run, o stopOptions) error {
	if err := o.seen.Requests(s).Stop(ctx, run.ID); err != nil { // before its site is declared lost, lest it continue elsewhere
		return err
	}
	if o.without {
		if err := s.Requests().SkipOutputs(ctx, run); err != nil {
			return err
		}
	}
	if o.siteLost {
		if err := holdLost(ctx, s, run); err != nil {
			return err
		}
	}
	return nudge(s, run.ID)
}

// namesOr refuses a command that is given both names of runs and the flag that
// stands for many, or neither: a slip of the pen must not end or forget what
// was not meant.
func namesOr(flag string, set bool, words []string) error {
	switch {
	case set && len(words) > 0:
		return &core.Error{
			Kind: core.Invalid, Op: "read arguments", Err: fmt.Errorf("%s and names of runs (%s) were given together", flag, strings.Join(words, ", ")),
			Remedy: "Give the names, or " + flag + ": nothing was done.",
		}
	case !set && len(words) == 0:
		return &core.Error{Kind: core.Invalid, Op: "read arguments", Err: errors.New("no run named"), Remedy: "Name one, or give " + flag + "."}
	}
	return nil
}

// nudge makes a run's controller look at the record; a run without one gets
// a new controller, which looks first of all.
func nudge(s *workspace.Session, id string) error {
	reported, err := s.Store.Locks().Nudge(id)
	if host := s.Store.Locks().Elsewhere(id); err == nil && reported && host != "" {
		s.Workspace.Say("run %s: its controller on host %s looks within %v", id, host, supervisor.StopInterval)
	}
	if err != nil || reported {
		return err
	}
	return s.Background(id)
}

// endTries is how many controllers may give up before a run's end is not waited for any
// more.
const endTries = 4

// awaitEnd waits until a run is over, and reports what is in the way meanwhile.
func awaitEnd(ctx context.Context, s *workspace.Session, run state.Run) (state.Run, error) {
	var (
		begun   = time.Now()
		started time.Time // a controller, of tries, that has not shown up yet
		tries   int
		last    int64
	)
	look := fsutil.Backoff{First: time.Millisecond, Longest: 200 * time.Millisecond}
	for !run.State.Final() {
		wait := look.Next()
		if err := core.Sleep(ctx, wait); err != nil {
			return run, err
		}
		var err error
		if run, err = s.Store.Run(ctx, run.ID); err != nil {
			return run, err
		}
		if run.State.Final() || wait <= 100*time.Millisecond {
			continue
		}
		e, is, err := s.Store.History().Last(ctx, run.ID)
		if err != nil {
			return run, err
		}
		if is && (tries > 1 || e.Time.After(begun)) && e.Seq != last {
			last = e.Seq
			s.Workspace.Say("run %s: %s", run.ID, report.Sentence(e))
		} else if last == 0 && time.Since(begun) > workspace.Silence {
			last = -1
			s.Workspace.Say("run %s: %s", run.ID, endingText(ctx, s, run))
		}
		if s.Store.Locks().Controlled(run.ID) {
			started = time.Time{}
			continue
		}
		if time.Since(started) < workspace.StartTime {
			continue
		}
		if tries++; tries > endTries {
			return run, &core.Error{
				Kind: core.Transient, Op: "end run", Object: run.ID, Err: errors.New("something is in its way, and what it has made is kept until that is gone"),
				Remedy: "`bee show " + run.ID + "` shows what it is; put it right, and run this command again.",
			}
		}
		started = time.Now()
		if err := s.Background(run.ID); err != nil { // its controller died under us
			return run, err
		}
	}
	return run, nil
}

// endingText reports what a run that does not end at once is waited for.
func endingText(ctx context.Context, s *workspace.Session, run state.Run) string {
	text := "it has been told to end"
	attempts, err := s.Store.Attempts(ctx, run.ID)
	left := func(at state.Attempt) bool { return !at.Released() }
	switch n := len(attempts); {
	case err != nil || n == 0:
	case run.State == state.Suspended && slices.ContainsFunc(attempts, left):
		text = workspace.TidyingText
	case attempts[n-1].Decided() && attempts[n-1].Launched() && left(attempts[n-1]):
		text = "its results are on this machine, and what it has left on site " + attempts[n-1].Site + " is being removed"
	default:
		text += " on site " + attempts[n-1].Site
	}
	if host := s.Store.Locks().Elsewhere(run.ID); host != "" {
		text += ", by its controller on host " + host
	}
	return text + ", which is waited for; Ctrl-C leaves it to end by itself"
}
