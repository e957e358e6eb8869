package runcmd

import (
	"context"
	"errors"
	"io"
	"slices"
	"strconv"
	"sync"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/state"
)

// jobsWatch shows what several jobs do, which a supervisor carries out.
type jobsWatch struct {
	a    jobsRunner
	s    *workspace.Session
	jobs []submittedJob
	o    runOptions
}

// gate passes what is written while it is open. Who closes it does not wait for what is being
// written, which takes as long as nobody reads it.
type gate struct {
	mu *sync.Mutex // held while it is closed
	to io.Writer
}

// Write implements io.Writer.
func (g gate) Write(p []byte) (int, error) {
	g.pass()
	return g.to.Write(p)
}

// pass waits until it is open.
func (g gate) pass() {
	g.mu.Lock()
	defer g.mu.Unlock()
}

// await shows the output of the jobs until none of them continues by itself, and ends with the code
// of the first one that did not succeed.
func (w jobsWatch) await(ctx context.Context) error {
	var closed sync.Mutex
	watched, done := w.signals(ctx, &closed)
	defer done()
	shown := w.follow(watched, &closed)
	var runs []state.Run
	for _, job := range w.jobs {
		runs = append(runs, job.runs...)
	}
	waits := submission.WaitsOf(runs)
	over, err := w.s.AwaitUntil(watched, runs, func(now []state.Run, _ int) bool { return waits.Settled(now) })
	lost := shown(over)
	switch cause := context.Cause(watched); {
	case errors.Is(cause, errDetach):
		return w.a.printDetached(w.jobs, w.o)
	case errors.Is(cause, errLeave):
		return console.Exit(console.ExitStopped)
	case err != nil:
		return err
	}
	ending := w.ending(ctx, over)
	if lost == nil || ending == nil {
		return errors.Join(ending, lost)
	}
	w.a.PrintError(lost)
	return ending
}

// follow shows the output of the jobs that are runs, each line with the name of its job. shown
// waits until all output of those is shown that have ended, and shows no more of the others.
// Where ctx has ended, it waits for nothing.
func (w jobsWatch) follow(ctx context.Context, closed *sync.Mutex) (shown func(over []state.Run) error) {
	var ids []string
	contexts, ends := map[string]context.Context{}, map[string]context.CancelFunc{}
	for _, job := range w.jobs {
		if id := job.id(); job.first.Array == nil {
			ids = append(ids, id)
			contexts[id], ends[id] = context.WithCancel(ctx)
		}
	}
	if len(ids) == 0 {
		return func([]state.Run) error { return nil }
	}
	stdout := w.a.Stdout
	if w.o.asJSON {
		stdout = w.a.Stderr
	}
	done := make(chan error, 1)
	to := w.a.WritingTo(gate{closed, stdout}, gate{closed, w.a.Stderr})
	go func() {
		done <- w.a.records.FollowSeveral(ctx, to, ids, func(id string) context.Context { return contexts[id] }, w.o.quiet)
	}()
	return func(over []state.Run) error {
		for id, end := range ends {
			if !slices.ContainsFunc(over, func(r state.Run) bool { return r.ID == id && r.State.Final() }) {
				end()
			}
		}
		select {
		case err := <-done:
			if ctx.Err() == nil {
				return err
			}
		case <-ctx.Done(): // it may write what nobody reads
		}
		return nil
	}
}

// ending reports how the jobs ended.
func (w jobsWatch) ending(ctx context.Context, over []state.Run) error {
	ended := make(map[string]state.Run, len(over))
	for _, run := range over {
		ended[run.ID] = run
	}
	never, err := submission.NeverBegan(ctx, w.s.Store, over)
	if err != nil {
		return err
	}
	var views []any
	for _, job := range w.jobs {
		view, err := w.jobEnding(ctx, job, ended, never)
		if err != nil {
			return err
		}
		views = append(views, view)
	}
	if w.o.asJSON {
		if err := w.a.WriteJSON(views); err != nil {
			return err
		}
	}
	counted := slices.DeleteFunc(slices.Clone(over), func(r state.Run) bool { return never[r.ID] })
	slices.SortFunc(counted, func(a, b state.Run) int { return a.Created.Compare(b.Created) }) // those that wait come last
	var ending error
	for _, run := range counted {
		if code := workspace.CodeOf(run); code != 0 {
			ending = console.Exit(code)
			break
		}
	}
	return w.a.Reported(w.o.results, ending, func() error { return w.a.records.Results(ctx, w.s, w.o.results, counted, false) })
}

// jobEnding reports how a job ended, and returns it as JSON has it.
func (w jobsWatch) jobEnding(ctx context.Context, job submittedJob, ended map[string]state.Run, never map[string]bool) (any, error) {
	if job.first.Array != nil {
		var over []state.Run
		for _, run := range job.runs {
			if run, is := ended[run.ID]; is {
				over = append(over, run)
			}
		}
		array, _, err := arrayRunner{w.a.Commands}.ending(ctx, w.s, job.id(), over, w.o.quiet)
		return runview.OfArray(array), err
	}
	run, over := ended[job.id()]
	if !over {
		var err error
		if run, err = w.s.Store.Run(ctx, job.id()); err != nil {
			return nil, err
		}
	}
	own := never[run.ID] || run.State == state.Succeeded || run.ExitCode != nil && *run.ExitCode != 0
	switch {
	case !over:
		if !w.o.quiet {
			w.a.Say("run %s (%s) is %s: what it waits for needs you first; `bee show %s` shows it", run.ID, output.Printable(run.Name), run.State, run.ID)
		}
	case !run.State.Final(), w.o.quiet && run.State != state.Stopped && !own: // that of the others is shown with their output
		w.a.SayEnding(ctx, run, w.s)
	}
	if w.o.quiet {
		if err := w.a.warnOfOutputs(ctx, w.s, run.ID); err != nil {
			return nil, err
		}
	}
	if !w.o.asJSON {
		return nil, nil
	}
	return runview.Of(ctx, w.s, run)
}

// signals acts on Ctrl-C and TERM as for a run. It returns a context that ends where this command
// leaves the jobs.
func (w jobsWatch) signals(ctx context.Context, closed *sync.Mutex) (context.Context, func()) {
	return signalled{
		ui: console.NewProgress(w.a.Console, w.o.quiet), output: closed,
		name: "all " + strconv.Itoa(len(w.jobs)) + " jobs", is: "the jobs are", saves: "the jobs save themselves",
		stop: func(ctx context.Context) {
			if err := w.stop(ctx); err != nil {
				w.a.PrintError(err)
			}
		},
	}.watch(ctx)
}

// stop has the jobs end that are not over, and does not wait for it.
func (w jobsWatch) stop(ctx context.Context) error {
	jobs := slices.Clone(w.jobs)
	slices.SortStableFunc(jobs, func(a, b submittedJob) int { return b.runs[0].Created.Compare(a.runs[0].Created) }) // none begins as what it waits for ends
	var words []string
	for _, job := range jobs {
		words = append(words, job.id())
	}
	return w.a.records.Stop(ctx, w.s, words)
}
