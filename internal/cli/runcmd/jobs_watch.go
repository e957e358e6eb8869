package runcmd

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

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
	over, err := w.s.AwaitUntil(watched, runs, func(now []state.Run, _ int) bool { return settled(w.jobs, now) })
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

// settled reports whether each of some jobs is over, needs its user, or waits for one that does.
// now are the runs of all of them.
func settled(jobs []submittedJob, now []state.Run) bool {
	over, waits, needsUser := make([]bool, len(jobs)), make([]bool, len(jobs)), make([]bool, len(jobs))
	for i, job := range jobs {
		own := now[:len(job.runs)]
		now = now[len(job.runs):]
		needsUser[i] = slices.ContainsFunc(own, func(r state.Run) bool { return r.State.Resumable() })
		over[i] = !slices.ContainsFunc(own, func(r state.Run) bool { return !r.State.Final() && !r.State.Resumable() })
	}
	for range jobs { // in each round, those that wait for what was found in the one before
		for i, job := range jobs {
			for _, l := range job.links {
				waits[i] = waits[i] || needsUser[l.Job] || waits[l.Job]
			}
		}
	}
	for i := range jobs {
		if !over[i] && !waits[i] {
			return false
		}
	}
	return true
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
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 4)
	signal.Notify(got, syscall.SIGINT, syscall.SIGTERM)
	ui := console.NewProgress(w.a.Console, w.o.quiet)
	go func() {
		stopping := false
		var earlier repeats
		for {
			var s os.Signal
			select {
			case s = <-got:
			case <-ctx.Done():
				return
			}
			if earlier.again(s, time.Now()) {
				continue
			}
			want := console.Stop
			switch {
			case stopping:
				ui.Note("leaving; the jobs are stopped in the background")
				cancel(errLeave)
				return
			case s == syscall.SIGTERM && workspace.Allocation() != "":
				ui.Note("Slurm ends the job that this runs in: the jobs save themselves, if they can; `bee stop` would stop them")
				continue
			case s == syscall.SIGINT:
				closed.Lock()
				want = ui.AskStop("all "+strconv.Itoa(len(w.jobs))+" jobs", got)
				closed.Unlock()
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
				ui.Note("stopping the jobs")
				if err := w.stop(ctx); err != nil {
					w.a.PrintError(err)
				}
			}
		}
	}()
	return ctx, func() { signal.Stop(got); cancel(nil) }
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
