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
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// commands runs the job's commands on node 0.
type commands struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	output  *tasklog.Writer
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
	b := cm.current.Get()
	outR, outW, err := os.Pipe()
	if err != nil {
		return core.Exit{}, err
	}
	defer outR.Close()
	errR, errW, err := os.Pipe()
	if err != nil {
		outW.Close()
		return core.Exit{}, err
	}
	defer errR.Close()
	command := driver.Command{Args: argv, Env: cm.env(), Dir: b.Workdir, Stdout: outW, Stderr: errW}
	var inW *os.File
	if in != nil {
		if command.Stdin, inW, err = os.Pipe(); err != nil {
			outW.Close()
			errW.Close()
			return core.Exit{}, err
		}
		defer inW.Close()
		defer command.Stdin.Close()
	}
	p, err := cm.begin(ctx, command)
	outW.Close()
	errW.Close()
	if err != nil {
		return cm.notStarted(err)
	}
	if in != nil {
		command.Stdin.Close() // the command has it
		in.begin(inW, nil)
	}
	var output execute.Output
	output.Pass(outR, cm.keepOutput(tasklog.Stdout))
	output.Pass(errR, cm.keepOutput(tasklog.Stderr))
	exit, err := cm.await(ctx, p)
	if cm.saver.snapshot > 0 { // what comes after that is the next attempt's: all else is here
		output.Wait()
	} else {
		output.Drain()
	}
	return exit, err
}

// env is the environment of the job's commands.
func (cm *commands) env() []string {
	return append(slices.Clone(cm.current.Get().Env), ranks.TaskVariable+"=1")
}

// notStarted is the exit of a command that could not be started, where that is its own fault.
func (cm *commands) notStarted(err error) (core.Exit, error) {
	if e, ok := errors.AsType[*pid1.StartError](err); ok {
		core.BestEffort(cm.output.Write(tasklog.Stderr, []byte("bee: "+e.Message+"\n"))) // the exit code says it too
		return core.Exit{Code: e.Code}, nil
	}
	return core.Exit{}, err
}

// onTerminal is task for a command on a terminal.
func (cm *commands) onTerminal(ctx context.Context, argv []string, in *jobInput) (core.Exit, error) {
	t := cm.plan.Terminal
	env := cm.env()
	if t.Type != "" && !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "TERM=") }) {
		env = append(env, "TERM="+t.Type)
	}
	p, err := cm.begin(ctx, driver.Command{Args: argv, Env: env, Dir: cm.current.Get().Workdir, Terminal: &driver.TerminalSize{Rows: t.Rows, Cols: t.Cols}})
	if err != nil {
		return cm.notStarted(err)
	}
	end := p.Terminal()
	if end == nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return core.Exit{}, &core.Error{Kind: core.Unsupported, Op: "start the job's command on a terminal", Err: errors.New("its runtime has made none"), Remedy: "Leave out -t, or choose another `runtime:`."}
	}
	defer end.Close()
	in.begin(nil, end)
	var output execute.Output
	output.Pass(end, cm.keepOutput(tasklog.Stdout))
	exit, err := cm.await(ctx, p)
	output.Drain()
	return exit, err
}

// keepOutput gives what keeps the task's output. Where that cannot be kept, the attempt
// ends, and the rest is taken all the same: the process that relays it is not to wait.
func (cm *commands) keepOutput(s tasklog.Stream) func(data []byte) error {
	failed := false
	return func(data []byte) error {
		if failed {
			return nil
		}
		err := cm.output.Write(s, data)
		if failed = err != nil; failed {
			kind := core.Permanent
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // another site may have room
				kind = core.Lost
			}
			cm.end.finish(&core.Error{Kind: kind, Err: err, Op: "keep the task's output", Remedy: "Free space on " + cm.config.Host.Name + ", where the output is kept."})
		}
		return nil
	}
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
	rest, cause := context.WithoutCancel(ctx), context.Cause(ctx)
	grace := cm.end.graceNow()
	if why, is := cm.saver.savingFor(cause); is && cm.plan.SavesVM() {
		cm.saver.saveMachines(rest, why, grace)
		p.Signal(rest, syscall.SIGKILL)
		return core.Exit{}, cause
	} else if is {
		cm.saver.saveAndEnd(rest, p, why, grace)
		switch {
		case cm.saver.answer == core.AnswerNothing:
			return core.Exit{}, cm.saver.unwritten(cause)
		case !cm.saver.saved:
			return core.Exit{}, unanswered(cause, grace)
		}
		return core.Exit{}, cause
	}
	p.Signal(rest, stopSignal(cm.plan.Image.Config))
	bounded, cancel := context.WithTimeout(rest, grace)
	defer cancel()
	if _, err := p.Wait(bounded); err != nil {
		p.Signal(rest, syscall.SIGKILL)
	}
	return core.Exit{}, cause
}

// wait waits for the task's end. When its user wants it to write its checkpoint and end meanwhile,
// it does; where that cannot be done it continues.
func (cm *commands) wait(ctx context.Context, p driver.Process) (core.Exit, error) {
	for {
		until, cancel := context.WithCancelCause(ctx)
		go func() {
			select {
			case <-cm.saver.asks:
				cancel(errSaveAsked)
			case <-until.Done():
			}
		}()
		exit, err := p.Wait(until)
		wasAsked := errors.Is(context.Cause(until), errSaveAsked)
		cancel(nil)
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
