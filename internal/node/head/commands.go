package head

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// commands runs the job's commands on node 0.
type commands struct {
	plan    *plan.Plan
	journal *journal.Journal
	output  taskOutput
	end     *ending
	current *container.Current
	saver   *saver
	notices <-chan os.Signal // the site's, that it takes the host back; nil: it gives none
}

// run runs one of the job's commands, its output into the log. nil: it reads nothing.
func (cm *commands) run(ctx context.Context, argv []string, in *jobInput) (core.Exit, error) {
	if in != nil {
		defer in.close()
		if cm.plan.Terminal != nil {
			return cm.onTerminal(ctx, argv, in)
		}
	}
	command := driver.Command{Args: argv, Env: taskEnv(cm.current.Get()), Dir: cm.current.Get().Workdir}
	var inW *os.File
	if in != nil {
		var err error
		if command.Stdin, inW, err = os.Pipe(); err != nil {
			return core.Exit{}, err
		}
		defer inW.Close()
		defer command.Stdin.Close()
	}
	p, err := cm.output.start(command, func(c driver.Command) (driver.Process, error) { return cm.begin(ctx, c) })
	if err != nil {
		return cm.output.notStarted(err)
	}
	defer p.close()
	if in != nil {
		command.Stdin.Close() // the command has it
		in.begin(inW, nil)
	}
	exit, err := cm.await(ctx, p.process)
	if cm.saver.snapshot > 0 { // what comes after that is the next attempt's: all else is here
		p.output.Wait()
	} else {
		p.output.Drain()
	}
	return exit, err
}

// onTerminal is task for a command on a terminal.
func (cm *commands) onTerminal(ctx context.Context, argv []string, in *jobInput) (core.Exit, error) {
	t := cm.plan.Terminal
	env := taskEnv(cm.current.Get())
	if t.Type != "" && !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "TERM=") }) {
		env = append(env, "TERM="+t.Type)
	}
	p, err := cm.begin(ctx, driver.Command{Args: argv, Env: env, Dir: cm.current.Get().Workdir, Terminal: &driver.TerminalSize{Rows: t.Rows, Cols: t.Cols}})
	if err != nil {
		return cm.output.notStarted(err)
	}
	end := p.Terminal()
	if end == nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return core.Exit{}, &core.Error{Kind: core.Unsupported, Op: "start the job's command on a terminal", Err: errors.New("its runtime has made none"), Remedy: "Leave out -t, or choose another `runtime:`."}
	}
	defer end.Close()
	in.begin(nil, end)
	var output execute.Output
	output.Pass(end, cm.output.keep(tasklog.Stdout))
	exit, err := cm.await(ctx, p)
	output.Drain()
	return exit, err
}

// begin starts the job's command, or takes it over where there is none to
// start.
func (cm *commands) begin(ctx context.Context, c driver.Command) (driver.Process, error) {
	if cm.plan.InGuest {
		g, err := cm.current.Get().ReachGuest()
		if err != nil {
			return nil, err
		}
		return g.ExecInGuest(ctx, driver.Command{Args: c.Args, Dir: g.InGuest(cm.plan.Volume), Stdout: c.Stdout, Stderr: c.Stderr})
	}
	m, err := cm.current.Movable()
	switch {
	case err != nil:
		return cm.current.Get().Exec(ctx, c)
	case c.Args == nil:
		return m.Task(ctx, c)
	case cm.journal.Phase() == core.PhaseSetup:
		return cm.current.Get().Exec(ctx, c)
	}
	return m.StartTask(ctx, c)
}

// await waits for the task's end; when the attempt shall end first, the task
// gets TERM, and after the grace KILL. How it then ends does not count.
func (cm *commands) await(ctx context.Context, p driver.Process) (core.Exit, error) {
	exit, err := cm.wait(ctx, p)
	if cm.saver.saved {
		return core.Exit{}, errSaveAsked
	}
	delay := time.Duration(0)
	switch {
	case core.IsKind(err, core.Lost):
		delay = deathDelay
	case cm.notices != nil && err == nil && exit.Code != 0:
		delay = noticeDelay
	}
	if delay > 0 {
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
	}
	if ctx.Err() == nil {
		return exit, err
	}
	cause, grace := context.Cause(ctx), cm.end.graceNow()
	rest, cancel := cm.end.rest(ctx)
	defer cancel()
	if why, is := cm.saver.savingFor(cause); is && cm.plan.SavesVM() {
		cm.saver.saveMachines(rest, why, grace)
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return core.Exit{}, cause
	} else if is {
		cm.saver.saveAndEnd(rest, p, why, grace)
		switch {
		case cm.saver.answer == core.AnswerNothing:
			return core.Exit{}, cm.saver.unwritten(cause)
		case !cm.saver.saved:
			return core.Exit{}, unanswered(cause, cm.end.graceNow())
		}
		return core.Exit{}, cause
	}
	endProcess(rest, p, stopSignal(cm.plan.Image.Config), grace)
	return core.Exit{}, cause
}

// endProcess asks a process to end by a signal, and kills it when the grace is over. It
// reports whether the process has ended before.
func endProcess(ctx context.Context, p driver.Process, signal os.Signal, grace time.Duration) bool {
	p.Signal(ctx, signal)
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if _, err := p.Wait(bounded); err != nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return false
	}
	return true
}

// wait waits for the task's end. When its user wants it to write its checkpoint and end meanwhile,
// it does; where that cannot be done it continues.
func (cm *commands) wait(ctx context.Context, p driver.Process) (core.Exit, error) {
	for {
		until, cancel := cm.saver.untilAsked(ctx)
		exit, err := p.Wait(until)
		wasAsked := errors.Is(context.Cause(until), errSaveAsked)
		cancel()
		if err == nil || !wasAsked || ctx.Err() != nil {
			return exit, err
		}
		if !cm.plan.SavesVM() {
			if exit, ended, err := cm.saver.checkpointAsked(ctx, p); ended {
				return exit, err
			}
			continue
		}
		if cm.saver.saveMachines(context.WithoutCancel(ctx), "its user wants it", cm.plan.Checkpoint.Grace); cm.saver.saved {
			p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
			return core.Exit{}, nil
		}
		cm.journal.Begin(core.PhaseRun)
	}
}

// noticeDelay is how much later than the job a head may get a notice that went
// to both.
const noticeDelay = 500 * time.Millisecond

// deathDelay is how much later than that the line to the job's command broke it may be
// known of what the container, or the machine around it, died.
const deathDelay = 2 * time.Second
