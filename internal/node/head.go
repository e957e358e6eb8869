package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/node/execute"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/treesync"
)

// head is node 0's further part: it carries the plan out.
type head struct {
	n       *node
	plan    *plan.Plan
	journal *journal
	output  *tasklog.Writer
	addrs   []string
	end     *ending
	hosts   *hosts
	ready   map[string]chan struct{} // closed when this host's cache has an image
	mu      sync.Mutex

	runtimes []string
	shared   bool
	exit     *core.Exit
	inSetup  bool
	setUp    bool        // setup has ended well
	saved    bool        // the task has written its checkpoint
	wrote    bool        // it is known to have, by `checkpoint.command`
	inPost   bool        // the exit is that of the plan's Post
	before   evidence    // when it was asked
	answer   core.Answer // how it ended then
	asked    bool        // it was asked to write its checkpoint, and to end
	snapshot int         // the one that the run continues from, of saved machines

	running context.Context // as long as the job's command does; nil: it has not begun

	slot slot

	asks   chan struct{} // that it write its checkpoint now, and end
	saving sync.Mutex    // one snapshot at a time
	taken  int           // how many have been begun
	kept   *snapshot.Retained
	// input is what Run reads; nil: nothing.
	input *jobInput
	// unlockImage gives the data image free that is the volume; nil: it is none.
	unlockImage func()
}

func newHead(n *node) (*head, error) {
	dir := n.config.Host.Dir
	j, err := newJournal(plan.EventsPath(dir))
	if err != nil {
		return nil, fmt.Errorf("begin the journal: %w", err)
	}
	output, err := fsutil.Empty(plan.OutputPath(dir), 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the output log: %w", err)
	}
	reserveSpace(reservePath(dir))
	granted := n.config.Plan.Deadline
	n.config.Plan.Begin(time.Now())
	end := newEnding(n.config.Plan.Grace)
	h := &head{
		n: n, plan: n.config.Plan, journal: j, output: tasklog.New(output), asks: make(chan struct{}, 1),
		end: end, hosts: newHosts(n.config, j, end), ready: map[string]chan struct{}{spreadImage: make(chan struct{}), spreadGuest: make(chan struct{})},
		slot: slot{site: granted, ends: n.config.Plan.Deadline}, kept: snapshot.Retain(dir),
	}
	if h.plan.Input {
		h.input = newJobInput()
	}
	return h, nil
}

// refuse ends an attempt that could not even begin.
func (h *head) refuse(err error) {
	h.output.Close()
	h.leave(failedResult(h.n.config, err))
}

// carryOut is the whole attempt. However it ends, a result is left.
func (h *head) carryOut(ctx context.Context) {
	started := time.Now()
	stop := context.AfterFunc(ctx, func() {
		h.end.stop(&core.Error{Kind: core.Stopped, Err: errors.New("the node was asked to end")}, h.plan.Grace)
	})
	defer stop()
	if d := h.plan.Deadline; !d.IsZero() {
		margin, grace := h.marginIn(time.Until(d))
		slot, over := context.WithCancel(h.end.over)
		defer over()
		go h.endBefore(slot, margin, grace)
	}
	err := h.prepare(h.end.over)
	if err == nil {
		err = h.work(h.end.over)
	}
	if cause := context.Cause(h.end.over); cause != nil && h.exit == nil && !errors.Is(err, cause) {
		err = cause
	}
	h.output.Close()
	r := h.conclude(err)
	r.Continue, r.Answer, r.Snapshot, r.SetupDone = h.saved, h.answer, h.snapshot, h.setUp
	r.Started = started
	h.leave(r)
}

// marginIn is how long before the end of the time that is left the job is asked to
// write its checkpoint, or to end, and how long of it is the job's own. The site may have
// granted less than was asked for: what earlier checkpoints have taught counts only
// as far as half of the time is left to compute, and where not even the Beefile's
// own leaves any, half of it is all that there is. Else the run would write its checkpoint in
// every slot and never get on.
func (h *head) marginIn(left time.Duration) (margin, grace time.Duration) {
	grace = h.saveGrace()
	margin = grace + h.plan.Grace
	c := h.plan.Checkpoint
	if c == nil {
		return margin, grace
	}
	margin = max(margin, c.Margin)
	most := left / 2
	if c.Least < left {
		most = max(most, c.Least)
	}
	if margin <= most {
		return margin, grace
	}
	if margin-most >= time.Second { // else it is only what has passed since the hosts were granted
		h.journal.remark(core.PhaseRun, fmt.Sprintf("the site has granted %s: the job is asked to save itself %s before the end, and not %s",
			left.Round(time.Second), most.Round(time.Second), margin.Round(time.Second)))
	}
	return most, min(grace, max(most-h.plan.Grace, most/2))
}

// saveGrace is how long the job may take to end, with its checkpoint written
// where it makes one.
func (h *head) saveGrace() time.Duration {
	if c := h.plan.Checkpoint; c != nil {
		return c.Grace
	}
	return h.plan.Grace
}

// errSlotEnds is why an attempt ends that has used up its time.
var errSlotEnds = &core.Error{Kind: core.Lost, Err: errors.New("the site's time slot has ended before the job"), //nolint:gochecknoglobals // a constant
	Remedy: "Raise the site's `slot`. With `checkpoint:` in the Beefile a run continues elsewhere, if the job answers its signal by writing one and ending, within `grace`: docs/how-to/checkpoints.md has recipes, also for programs that cannot save themselves."}

// errTakenBack is the same for a site that takes its hosts back before.
var errTakenBack = &core.Error{Kind: core.Lost, Err: errors.New("the site has taken its hosts back"), //nolint:gochecknoglobals // a constant
	Remedy: "Its batch job was cancelled, preempted, or at the end of its time. With `checkpoint:` in the Beefile a run continues elsewhere."}

// watchNotice ends the attempt when the site gives notice.
func (h *head) watchNotice(ctx context.Context) {
	select {
	case <-h.n.notices:
		h.end.stop(errTakenBack, h.saveGrace())
	case <-ctx.Done():
	}
}

// noticeDelay is how much later than the job a head may get a notice that went
// to both.
const noticeDelay = 500 * time.Millisecond

// deathDelay is how much later than that the line to the job's command broke it may be
// known of what the container, or the machine around it, died.
const deathDelay = 2 * time.Second

// errSaveAsked is the same for a user who wanted a checkpoint, which the job has written.
var errSaveAsked = &core.Error{Kind: core.Lost, Err: errors.New("its user asked for a checkpoint")} //nolint:gochecknoglobals // a constant

// work runs the job's commands on this node.
func (h *head) work(ctx context.Context) error {
	if h.plan.Timeout > 0 {
		timer := time.AfterFunc(h.plan.Timeout, func() {
			h.end.stop(&core.Error{Kind: core.Permanent, Err: fmt.Errorf("it did not end within its `timeout:` of %v", h.plan.Timeout)}, h.plan.Grace)
		})
		defer timer.Stop()
	}
	if h.plan.Restore {
		return h.goOn(ctx)
	}
	if h.plan.Setup != nil {
		h.n.setPhase(core.PhaseSetup)
		h.journal.begin(core.PhaseSetup)
		exit, err := h.task(ctx, h.plan.Setup, nil)
		h.journal.end(core.PhaseSetup)
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			h.warnOfFullVolume()
			h.exit, h.inSetup = &exit, true
			return nil
		}
		h.setUp = true
		h.journal.add(plan.Event{Rank: -1, SetupDone: true})
	}
	if err := h.spreadVolume(ctx); err != nil {
		return err
	}
	if err := h.checkMPI(ctx); err != nil {
		return err
	}
	return h.run(ctx, h.plan.Run)
}

// run runs the job's command to its end, or takes it over where argv is nil.
func (h *head) run(ctx context.Context, argv []string) error {
	running, ran := context.WithCancel(ctx)
	h.mu.Lock()
	h.running = running
	h.mu.Unlock()
	h.n.setPhase(core.PhaseRun)
	h.journal.begin(core.PhaseRun)
	go h.takeSnapshots(running)
	exit, err := h.task(ctx, argv, h.input)
	ran()
	h.journal.end(core.PhaseRun)
	h.warnOfFullVolume()
	if err != nil {
		return err
	}
	if h.plan.Checkpoint != nil && !h.plan.SavesVM() && exit.Code == plan.ContinueCode {
		h.saved = true
		return nil
	}
	if exit.Code != 0 {
		if err := h.hosts.complete(ctx); err != nil {
			return err
		}
	}
	if exit.Code == 0 && h.plan.Post != nil {
		if exit, err = h.post(ctx); err != nil {
			return err
		}
		h.inPost = true
	}
	h.exit = &exit
	return nil
}

// spreadVolume gives hosts with a volume of their own what node 0's has now.
func (h *head) spreadVolume(ctx context.Context) error {
	if h.n.config.Size == 1 || h.hasVolumeImage() {
		return nil
	}
	if h.plan.SavesVM() {
		return h.spreadHeld(ctx)
	}
	if h.shared {
		return nil
	}
	return h.spreadOutside(ctx)
}

// spreadOutside does it on the hosts themselves.
func (h *head) spreadOutside(ctx context.Context) error {
	h.journal.say(core.PhaseStart, "the hosts share no file system: copying the volume to each")
	volume := plan.VolumeDir(h.n.config.Host.Dir)
	h.n.spreads.offer(spreadVolume, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, volume, nil) })
	if err := h.hosts.all(func(_ int, p *rpc.Peer) error { _, err := rpc.Call(ctx, p, callSync, rpc.None{}); return err }); err != nil {
		return err
	}
	h.n.spreads.forget(spreadVolume)
	return h.hosts.all(func(_ int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, callForget, thing{spreadVolume})
		return err
	})
}

// checkMPI says what cannot work before it hangs, and warns of the doubtful.
func (h *head) checkMPI(ctx context.Context) error {
	if h.plan.InGuest { // the image is not its
		return nil
	}
	warnings, err := h.inspect(ctx)
	for _, w := range warnings {
		h.journal.say(core.PhaseStart, "warning: "+w)
	}
	return err
}

// task runs one of the job's commands, its output into the log. nil: it reads nothing.
func (h *head) task(ctx context.Context, argv []string, in *jobInput) (core.Exit, error) {
	if in != nil {
		defer in.close()
		if h.plan.Terminal != nil {
			return h.onTerminal(ctx, argv, in)
		}
	}
	b := h.n.current.get()
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
	command := driver.Command{Args: argv, Env: h.taskEnv(), Dir: b.workdir, Stdout: outW, Stderr: errW}
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
	p, err := h.begin(ctx, command)
	outW.Close()
	errW.Close()
	if err != nil {
		return h.notStarted(err)
	}
	if in != nil {
		command.Stdin.Close() // the command has it
		in.begin(inW, nil)
	}
	var output execute.Output
	output.Pass(outR, h.keepOutput(tasklog.Stdout))
	output.Pass(errR, h.keepOutput(tasklog.Stderr))
	exit, err := h.await(ctx, p)
	if h.snapshot > 0 { // what comes after that is the next attempt's: all else is here
		output.Wait()
	} else {
		output.Drain()
	}
	return exit, err
}

// taskEnv is the environment of the job's commands.
func (h *head) taskEnv() []string {
	return append(slices.Clone(h.n.current.get().env), ranks.TaskVariable+"=1")
}

// notStarted is the exit of a command that could not be started, where that is its own fault.
func (h *head) notStarted(err error) (core.Exit, error) {
	if e, ok := errors.AsType[*pid1.StartError](err); ok {
		h.output.Write(tasklog.Stderr, []byte("bee: "+e.Message+"\n")) //nolint:errcheck // the exit code says it too
		return core.Exit{Code: e.Code}, nil
	}
	return core.Exit{}, err
}

// onTerminal is task for a command on a terminal.
func (h *head) onTerminal(ctx context.Context, argv []string, in *jobInput) (core.Exit, error) {
	t := h.plan.Terminal
	env := h.taskEnv()
	if t.Type != "" && !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "TERM=") }) {
		env = append(env, "TERM="+t.Type)
	}
	p, err := h.begin(ctx, driver.Command{Args: argv, Env: env, Dir: h.n.current.get().workdir, Terminal: &driver.TerminalSize{Rows: t.Rows, Cols: t.Cols}})
	if err != nil {
		return h.notStarted(err)
	}
	end := p.Terminal()
	if end == nil {
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // it may have ended just now
		return core.Exit{}, &core.Error{Kind: core.Unsupported, Op: "start the job's command on a terminal", Err: errors.New("its runtime has made none"), Remedy: "Leave out -t, or choose another `runtime:`."}
	}
	defer end.Close()
	in.begin(nil, end)
	var output execute.Output
	output.Pass(end, h.keepOutput(tasklog.Stdout))
	exit, err := h.await(ctx, p)
	output.Drain()
	return exit, err
}

// keepOutput gives what keeps the task's output. Where that cannot be kept, the attempt
// ends, and the rest is taken all the same: the process that relays it is not to wait.
func (h *head) keepOutput(s tasklog.Stream) func(data []byte) error {
	failed := false
	return func(data []byte) error {
		if failed {
			return nil
		}
		err := h.output.Write(s, data)
		if failed = err != nil; failed {
			kind := core.Permanent
			if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) { // another site may have room
				kind = core.Lost
			}
			h.end.finish(&core.Error{Kind: kind, Err: err, Op: "keep the task's output", Remedy: "Free space on " + h.n.config.Host.Name + ", where the output is kept."})
		}
		return nil
	}
}

// await waits for the task's end; when the attempt shall end first, the task
// gets TERM, and after the grace KILL. How it then ends does not count.
func (h *head) await(ctx context.Context, p driver.Process) (core.Exit, error) {
	exit, err := h.wait(ctx, p)
	if h.saved {
		return core.Exit{}, errSaveAsked
	}
	delay := time.Duration(0)
	switch {
	case core.IsKind(err, core.Lost):
		delay = deathDelay
	case h.n.notices != nil && err == nil && exit.Code != 0:
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
	grace := h.end.graceNow()
	if why, is := h.savingFor(cause); is && h.plan.SavesVM() {
		h.saveMachines(rest, why, grace)
		p.Signal(rest, syscall.SIGKILL) //nolint:errcheck // it may have ended just now
		return core.Exit{}, cause
	} else if is {
		h.saveAndEnd(rest, p, why, grace)
		switch {
		case h.answer == core.AnswerNothing:
			return core.Exit{}, h.unwritten(cause)
		case !h.saved:
			return core.Exit{}, unanswered(cause, grace)
		}
		return core.Exit{}, cause
	}
	p.Signal(rest, stopSignal(h.plan.Image.Config)) //nolint:errcheck // it may have ended just now
	bounded, cancel := context.WithTimeout(rest, grace)
	defer cancel()
	if _, err := p.Wait(bounded); err != nil {
		p.Signal(rest, syscall.SIGKILL) //nolint:errcheck // see above
	}
	return core.Exit{}, cause
}

// wait waits for the task's end. When its user wants it to write its checkpoint and end meanwhile,
// it does; where that cannot be done it continues.
func (h *head) wait(ctx context.Context, p driver.Process) (core.Exit, error) {
	for {
		until, cancel := context.WithCancelCause(ctx)
		go func() {
			select {
			case <-h.asks:
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
		if !h.plan.SavesVM() {
			if exit, ended, err := h.checkpointAsked(ctx, p); ended {
				return exit, err
			}
			continue
		}
		if h.saveMachines(context.WithoutCancel(ctx), "its user wants it", h.plan.Checkpoint.Grace); h.saved {
			p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // it may have ended just now
			return core.Exit{}, nil
		}
		h.journal.begin(core.PhaseRun)
	}
}
