package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/spread"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/tasklog"
)

// head is node 0's further part: it carries the plan out.
type head struct {
	n       *node
	plan    *plan.Plan
	journal *journal.Journal
	output  *tasklog.Writer
	addrs   []string
	end     *ending
	hosts   *hosts
	ready   map[string]chan struct{} // closed when this host's cache has an image

	volumes   *volumes
	image     *imageVolume
	machines  *machines
	snapshots *snapshots
	saver     *saver
	commands  *commands

	runtimes []string
	exit     *core.Exit
	inSetup  bool
	setUp    bool // setup has ended well
	inPost   bool // the exit is that of the plan's Post

	slot slot
	// input is what Run reads; nil: nothing.
	input *jobInput
}

func newHead(n *node) (*head, error) {
	dir := n.config.Host.Dir
	j, err := journal.New(plan.EventsPath(dir))
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
	h := assemble(n, j, tasklog.New(output))
	h.slot = slot{site: granted, ends: n.config.Plan.Deadline}
	return h, nil
}

// assemble makes a head of its parts.
func assemble(n *node, j *journal.Journal, output *tasklog.Writer) *head {
	c, p := n.config, n.config.Plan
	h := &head{
		n: n, plan: p, journal: j, output: output, end: newEnding(p.Grace),
		ready: map[string]chan struct{}{spread.Image: make(chan struct{}), spread.Guest: make(chan struct{})},
	}
	if p.Input {
		h.input = newJobInput()
	}
	h.hosts = newHosts(c, j, h.end)
	h.volumes = &volumes{config: c, plan: p, journal: j, hosts: h.hosts, pool: n.pool, spreads: n.spreads}
	h.image = &imageVolume{config: c, plan: p, journal: j, current: n.current, tools: n.tools}
	h.machines = &machines{config: c, plan: p, hosts: h.hosts, own: n.machine}
	h.snapshots = &snapshots{
		config: c, plan: p, journal: j, current: n.current, volumes: h.volumes, image: h.image, machines: h.machines,
		serving: &n.serving, kept: snapshot.Retain(c.Host.Dir),
	}
	h.saver = &saver{
		config: c, plan: p, log: n.Log, journal: j, hosts: h.hosts, current: n.current, volumes: h.volumes, image: h.image,
		snapshots: h.snapshots, reads: p.Input, asks: make(chan struct{}, 1),
	}
	h.commands = &commands{config: c, plan: p, journal: j, output: output, end: h.end, current: n.current, saver: h.saver, notices: n.notices}
	return h
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
	r.Continue, r.Answer, r.Snapshot, r.SetupDone = h.saver.saved, h.saver.answer, h.saver.snapshot, h.setUp
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
	grace = saveGrace(h.plan)
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
		h.journal.Remark(core.PhaseRun, fmt.Sprintf("the site has granted %s: the job is asked to save itself %s before the end, and not %s",
			left.Round(time.Second), most.Round(time.Second), margin.Round(time.Second)))
	}
	return most, min(grace, max(most-h.plan.Grace, most/2))
}

// saveGrace is how long the job may take to end, with its checkpoint written
// where it makes one.
func saveGrace(p *plan.Plan) time.Duration {
	if c := p.Checkpoint; c != nil {
		return c.Grace
	}
	return p.Grace
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
		h.end.stop(errTakenBack, saveGrace(h.plan))
	case <-ctx.Done():
	}
}

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
		h.journal.Enter(core.PhaseSetup)
		exit, err := h.commands.run(ctx, h.plan.Setup, nil)
		h.journal.End(core.PhaseSetup)
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			h.image.warnOfFull()
			h.exit, h.inSetup = &exit, true
			return nil
		}
		h.setUp = true
		h.journal.Add(plan.Event{Rank: -1, SetupDone: true})
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
	h.saver.setRunning(running)
	h.journal.Enter(core.PhaseRun)
	go h.snapshots.takeRegularly(running)
	exit, err := h.commands.run(ctx, argv, h.input)
	ran()
	h.journal.End(core.PhaseRun)
	if h.saver.snapshot == 0 { // else its guest is halted
		h.image.warnOfFull()
	}
	if err != nil {
		return err
	}
	if h.plan.Checkpoint != nil && !h.plan.SavesVM() && exit.Code == plan.ContinueCode {
		h.saver.saved = true
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
	if h.n.config.Size == 1 || h.plan.UsesDataImage() {
		return nil
	}
	if h.plan.SavesVM() {
		return h.spreadHeld(ctx)
	}
	if h.volumes.shared {
		return nil
	}
	return h.volumes.spread(ctx)
}

// checkMPI says what cannot work before it hangs, and warns of the doubtful.
func (h *head) checkMPI(ctx context.Context) error {
	if h.plan.InGuest { // the image is not its
		return nil
	}
	warnings, err := h.inspect(ctx)
	for _, w := range warnings {
		h.journal.Say(core.PhaseStart, "warning: "+w)
	}
	return err
}
