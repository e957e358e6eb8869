// Package head carries an attempt out, on node 0: it waits for the other nodes, has
// image and volume spread, containers started and the job's commands run, takes
// checkpoints, and leaves a result. It asks the node that it is a part of by an interface,
// and the other nodes by the calls of package peercall. It must not know how a node makes
// its container, nor how nodes are connected.
package head

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/volume/dataimage"
)

// Node is what the head asks of the node that it is a part of.
type Node interface {
	// Report returns what the node reports of its host, as another does when it joins.
	Report(ctx context.Context) peercall.JoinRequest
	// LeaveNonce writes a word that the others read where they share the run's directory.
	LeaveNonce() (string, error)
	// MarkCache marks the image cache for nodes that share it, until unmark is called.
	MarkCache() (token string, unmark func())
	// HaveImage gets an image into the cache of this host.
	HaveImage(ctx context.Context, what string, image core.Image, cacheToken string) error
	// Tree returns the unpacked image until release is called.
	Tree(ctx context.Context, id string) (path string, release func(), err error)
	// Learn records what is settled for the attempt, and joins the guests' network.
	Learn(p *plan.Plan, members []peercall.Member, network peercall.Network) error
	// RunContainer starts this node's container.
	RunContainer(ctx context.Context, runtime string) (*container.Container, error)
	// StartCase starts the container of a case of a pack, whose volume is a directory of this host.
	StartCase(ctx context.Context, runtime string, c plan.Case, volume string) (*container.Container, error)
	// EndContainer stops this node's container, and reports what it used.
	EndContainer(grace time.Duration) core.NodeReport
	// Use returns what this node's containers use, on average since the call before.
	Use(ctx context.Context) (core.Use, error)
	// Emulates reports whether the processors of this node's guest are emulated.
	Emulates() bool
	// MountBurst mounts a burst buffer, which containers have as the run's volume from then on.
	MountBurst(ctx context.Context, b plan.Burst) (Burst, error)
	// Tools returns e2fsprogs, until release is called.
	Tools(ctx context.Context) (t dataimage.Tools, release func(), err error)
}

// Peers are connections to the other nodes.
type Peers interface {
	// Peer returns the data connection to another node.
	Peer(ctx context.Context, rank int) (*rpc.Peer, error)
	// ReachOthers finds out whether the hosts reach each other.
	ReachOthers(ctx context.Context) error
	// Carry joins another node to a third, which it does not reach.
	Carry(ctx context.Context, _ rpc.Caller, r peercall.CarryRequest, a rpc.Answer[rpc.None]) error
}

// Parts are what a head uses of its node.
type Parts struct {
	Config  plan.Config
	Log     *slog.Logger
	Life    context.Context // the node's
	Node    Node
	Peers   Peers
	Spreads *spread.Tree
	Current *container.Current
	Machine *container.Machine
	Notices <-chan os.Signal // the site's, that it takes the host back; nil: it gives none
	Serving *sync.WaitGroup  // of calls that are to see the end
}

// Head is node 0's further part: it carries the plan out.
type Head struct {
	config  plan.Config
	log     *slog.Logger
	life    context.Context
	node    Node
	peers   Peers
	spreads *spread.Tree
	current *container.Current
	notices <-chan os.Signal
	serving *sync.WaitGroup

	plan    *plan.Plan
	journal *journal.Journal
	output  *tasklog.Writer
	addrs   []string
	end     *ending
	hosts   *hosts
	ready   map[string]chan struct{} // closed when this host's cache has an image

	volumes   *volumes
	burst     *burstVolume
	image     *imageVolume
	machines  *machines
	snapshots *snapshots
	saver     *saver
	commands  *commands
	numbers   *numbers
	samples   *samples

	runtimes []string
	exit     *core.Exit
	inSetup  bool
	setUp    bool // setup has ended well
	inPost   bool // the exit is that of the plan's Post

	slot slot
	// announced is what the site has announced of its hosts.
	announced notices
	// input is what Run reads; nil: nothing.
	input *jobInput
}

// New makes the head of an attempt that begins now.
func New(p Parts) (*Head, error) {
	c := p.Config
	dir := c.Host.Dir
	j, err := journal.New(plan.EventsPath(dir))
	if err != nil {
		return nil, fmt.Errorf("begin the journal: %w", err)
	}
	output, err := fsutil.Empty(plan.OutputPath(dir), 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin the output log: %w", err)
	}
	reserveSpace(reservePath(dir))
	granted := c.Plan.Deadline
	c.Plan.Begin(time.Now())
	h := assemble(p, j, tasklog.New(output))
	h.slot = slot{site: granted, ends: c.Plan.Deadline}
	return h, nil
}

// assemble makes a head of its parts.
func assemble(of Parts, j *journal.Journal, output *tasklog.Writer) *Head {
	c, p := of.Config, of.Config.Plan
	h := &Head{
		config: c, log: of.Log, life: of.Life, node: of.Node, peers: of.Peers, spreads: of.Spreads, current: of.Current,
		notices: of.Notices, serving: of.Serving,
		plan: p, journal: j, output: output, end: newEnding(p.Grace),
		ready: map[string]chan struct{}{spread.Image: make(chan struct{}), spread.Guest: make(chan struct{})},
	}
	if p.Input {
		h.input = newJobInput()
	}
	h.hosts = newHosts(c, j, h.end)
	h.volumes = &volumes{config: c, plan: p, journal: j, hosts: h.hosts, peers: of.Peers, spreads: of.Spreads}
	h.burst = &burstVolume{hosts: h.hosts, config: c, plan: p, journal: j, end: h.end, node: of.Node, volumes: h.volumes}
	h.volumes.burst = h.burst
	h.image = &imageVolume{config: c, plan: p, journal: j, current: of.Current, node: of.Node}
	h.machines = &machines{config: c, plan: p, hosts: h.hosts, own: of.Machine}
	h.snapshots = &snapshots{
		config: c, plan: p, journal: j, current: of.Current, volumes: h.volumes, image: h.image, machines: h.machines,
		serving: of.Serving, kept: snapshot.Retain(c.Host.Dir),
	}
	h.saver = &saver{
		config: c, plan: p, log: of.Log, journal: j, hosts: h.hosts, current: of.Current, volumes: h.volumes, image: h.image,
		snapshots: h.snapshots, reads: p.Input, asks: make(chan struct{}, 1),
	}
	h.numbers = newNumbers(p, h.volumes, j)
	h.samples = newSamples(p, of.Node, h.hosts, j)
	h.commands = &commands{plan: p, journal: j, output: taskOutput{log: output, host: c.Host.Name, end: h.end, numbers: h.numbers}, end: h.end, current: of.Current, saver: h.saver, notices: of.Notices}
	return h
}

// SetAddrs records the ip:port at which the head is found.
func (h *Head) SetAddrs(addrs []string) { h.addrs = addrs }

// Journal has the events and phases of the attempt.
func (h *Head) Journal() *journal.Journal { return h.journal }

// Fail ends the attempt because of the head's own host.
func (h *Head) Fail(why *core.Error) { h.hosts.fail(0, why) }

// Refuse ends an attempt that could not even begin.
func (h *Head) Refuse(err error) {
	h.output.Close()
	h.leave(Failed(h.config, err))
}

// Run is the whole attempt. However it ends, a result is left.
func (h *Head) Run(ctx context.Context) {
	started := time.Now()
	stop := context.AfterFunc(ctx, func() {
		h.end.stop(errNodeEnds, h.plan.Grace)
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
		read, sampled := h.numbers.follow(), h.samples.follow(h.life)
		err = h.work(h.end.over)
		sampled()
		read()
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
func (h *Head) marginIn(left time.Duration) (margin, grace time.Duration) {
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
var errSlotEnds = &core.Error{
	Kind: core.Lost, Err: errors.New("the site's time slot has ended before the job"),
	Remedy: "Raise the site's `slot`. With `checkpoint:` in the Beefile a run continues elsewhere, if the job answers its signal by writing one and ending, within `grace`: docs/how-to/checkpoints.md has recipes, also for programs that cannot save themselves.",
}

// errNodeEnds is why an attempt ends whose node was asked to end, by a signal.
var errNodeEnds = &core.Error{Kind: core.Stopped, Err: errors.New("the node was asked to end")}

// errTakenBack is the same for a site that takes its hosts back before.
var errTakenBack = &core.Error{
	Kind: core.Lost, Err: errors.New("the site has taken its hosts back"),
	Remedy: "Its batch job was cancelled, preempted, or at the end of its time. With `checkpoint:` in the Beefile a run continues elsewhere.",
}

// WatchNotice ends the attempt when the site gives notice.
func (h *Head) WatchNotice(ctx context.Context) {
	select {
	case <-h.notices:
		h.end.stop(errTakenBack, saveGrace(h.plan))
	case <-ctx.Done():
	}
}

// leastGrace is what a job gets at least to write its checkpoint, however short a notice is.
const leastGrace = 5 * time.Second

// TakenBack ends the attempt as the site takes one of its hosts back, and leaves them that long.
func (h *Head) TakenBack(left time.Duration) {
	rest := time.Duration(0) // for the transfer of what the job writes
	if c := h.plan.Checkpoint; c != nil {
		rest = max(0, c.Margin-c.Grace)
	}
	h.end.takenBack(errTakenBack, max(leastGrace, min(saveGrace(h.plan), left-rest)))
}

// errSaveAsked is the same for a user who wanted a checkpoint, which the job has written.
var errSaveAsked = &core.Error{Kind: core.Lost, Err: errors.New("its user asked for a checkpoint")}

// work runs the job's commands on this node.
func (h *Head) work(ctx context.Context) error {
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
func (h *Head) run(ctx context.Context, argv []string) error {
	if h.plan.Pack {
		return h.runCases(ctx)
	}
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
func (h *Head) spreadVolume(ctx context.Context) error {
	if h.config.Size == 1 || h.plan.UsesDataImage() {
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
func (h *Head) checkMPI(ctx context.Context) error {
	if h.plan.InGuest { // the image is not its
		return nil
	}
	warnings, err := h.inspect(ctx)
	for _, w := range warnings {
		h.journal.Say(core.PhaseStart, "warning: "+w)
	}
	return err
}
