package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/mpi"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/runtime/pid1"
	"github.com/bee-hpc/bee/internal/tasklog"
	"github.com/bee-hpc/bee/internal/wire"
)

// head is node 0's further part: it carries the plan out.
type head struct {
	n       *node
	plan    *protocol.Plan
	journal *journal
	output  *tasklog.Writer
	addrs   []string
	joins   chan joined
	network string

	nodes map[int]*wire.Peer // that have joined
	infos []joinRequest      // by rank

	over   context.Context // ends when the attempt shall end, with the reason
	finish context.CancelCauseFunc
	grace  time.Duration
	mu     sync.Mutex

	runtimes []string
	shared   bool
	exit     *core.Exit
	inSetup  bool
	faulty   string // the host at fault
}

type joined struct {
	peer *wire.Peer
	r    joinRequest
}

func newHead(n *node) (*head, error) {
	dir := n.config.Host.Dir
	j, err := newJournal(protocol.EventsPath(dir))
	if err != nil {
		return nil, fmt.Errorf("begin the journal: %w", err)
	}
	output, err := tasklog.Create(protocol.OutputPath(dir))
	if err != nil {
		return nil, fmt.Errorf("begin the output log: %w", err)
	}
	h := &head{n: n, plan: n.config.Plan, journal: j, output: output, joins: make(chan joined, n.config.Size),
		nodes: map[int]*wire.Peer{}, infos: make([]joinRequest, n.config.Size), grace: n.config.Plan.Grace}
	h.over, h.finish = context.WithCancelCause(context.Background())
	return h, nil
}

// stop ends the attempt for a reason. The first reason counts.
func (h *head) stop(why error, grace time.Duration) {
	h.mu.Lock()
	h.grace = grace
	h.mu.Unlock()
	h.finish(why)
}

// fail ends the attempt because of a host.
func (h *head) fail(rank int, why *core.Error) {
	h.mu.Lock()
	if h.faulty == "" && rank < len(h.n.members) {
		h.faulty = h.n.members[rank].Name
	}
	h.mu.Unlock()
	h.finish(why)
}

// carryOut is the whole attempt. However it ends, a result is left.
func (h *head) carryOut(ctx context.Context) {
	started := time.Now()
	stop := context.AfterFunc(ctx, func() {
		h.stop(&core.Error{Kind: core.Stopped, Err: errors.New("the node was told to end")}, h.plan.Grace)
	})
	defer stop()
	if d := h.plan.Deadline; !d.IsZero() {
		timer := time.AfterFunc(time.Until(d)-h.plan.Grace, func() {
			h.stop(&core.Error{Kind: core.Lost, Err: errors.New("the site's time slot has ended")}, h.plan.Grace)
		})
		defer timer.Stop()
	}
	err := h.prepare(h.over)
	if err == nil {
		err = h.work(h.over)
	}
	if cause := context.Cause(h.over); cause != nil && h.exit == nil {
		err = cause
	}
	h.output.Close() //nolint:errcheck // its frames were written one by one
	r := h.conclude(err)
	r.Started = started
	h.leave(r)
}

// work runs the job's commands on this node.
func (h *head) work(ctx context.Context) error {
	if h.plan.Timeout > 0 {
		timer := time.AfterFunc(h.plan.Timeout, func() {
			h.stop(&core.Error{Kind: core.Permanent, Err: fmt.Errorf("it did not end within its `timeout:` of %v", h.plan.Timeout)}, h.plan.Grace)
		})
		defer timer.Stop()
	}
	if h.plan.Setup != nil {
		h.n.setPhase(protocol.PhaseSetup)
		h.journal.begin(protocol.PhaseSetup)
		exit, err := h.task(ctx, h.plan.Setup)
		h.journal.end(protocol.PhaseSetup)
		if err != nil {
			return err
		}
		if exit.Code != 0 {
			h.exit, h.inSetup = &exit, true
			return nil
		}
		h.journal.add(protocol.Event{Rank: -1, SetupDone: true})
	}
	if err := h.spreadVolume(ctx); err != nil {
		return err
	}
	if err := h.checkMPI(ctx); err != nil {
		return err
	}
	h.n.setPhase(protocol.PhaseRun)
	h.journal.begin(protocol.PhaseRun)
	exit, err := h.task(ctx, h.plan.Run)
	h.journal.end(protocol.PhaseRun)
	if err != nil {
		return err
	}
	h.exit = &exit
	return nil
}

// spreadVolume gives hosts with a volume of their own what node 0's has now.
func (h *head) spreadVolume(ctx context.Context) error {
	close(h.n.treeReady)
	if h.shared || h.n.config.Size == 1 {
		return nil
	}
	h.journal.say(protocol.PhaseStart, "the hosts share no file system: copying the volume to each")
	return h.all(func(rank int, p *wire.Peer) error { return p.Call(ctx, callSync, nil, nil) })
}

// checkMPI says what cannot work before it hangs, and warns of the doubtful.
func (h *head) checkMPI(ctx context.Context) error {
	warnings, err := h.inspect(ctx)
	for _, w := range warnings {
		h.journal.say(protocol.PhaseStart, "warning: "+w)
	}
	return err
}

// task runs one of the job's commands, its output into the log.
func (h *head) task(ctx context.Context, argv []string) (core.Exit, error) {
	b := h.n.box
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
	p, err := b.Exec(ctx, driver.Command{Args: argv, Env: b.env, Dir: b.workdir, User: b.user, Stdout: outW, Stderr: errW})
	outW.Close()
	errW.Close()
	if e, ok := errors.AsType[*pid1.StartError](err); ok {
		h.output.Write(tasklog.Stderr, []byte("bee: "+e.Message+"\n")) //nolint:errcheck // the exit code says it too
		return core.Exit{Code: e.Code}, nil
	}
	if err != nil {
		return core.Exit{}, err
	}
	var wg sync.WaitGroup
	wg.Go(func() { h.copyOutput(tasklog.Stdout, outR) })
	wg.Go(func() { h.copyOutput(tasklog.Stderr, errR) })
	exit, err := h.await(ctx, p)
	waitShortly(&wg)
	return exit, err
}

func (h *head) copyOutput(s tasklog.Stream, r *os.File) {
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if werr := h.output.Write(s, buf[:n]); werr != nil {
				h.finish(&core.Error{Kind: core.Permanent, Err: werr, Remedy: "Free space on " + h.n.config.Host.Name + ", where the output is kept."})
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// await waits for the task's end; when the attempt shall end first, the task
// gets TERM, and after the grace KILL. How it then ends does not count.
func (h *head) await(ctx context.Context, p driver.Process) (core.Exit, error) {
	exit, err := p.Wait(ctx)
	if ctx.Err() == nil {
		return exit, err
	}
	rest := context.WithoutCancel(ctx)
	p.Signal(rest, syscall.SIGTERM) //nolint:errcheck // it may have ended just now
	h.mu.Lock()
	grace := h.grace
	h.mu.Unlock()
	bounded, cancel := context.WithTimeout(rest, grace)
	defer cancel()
	if _, err := p.Wait(bounded); err != nil {
		p.Signal(rest, syscall.SIGKILL) //nolint:errcheck // see above
	}
	return core.Exit{}, context.Cause(ctx)
}

// conclude ends all containers and gathers what the nodes have to tell.
func (h *head) conclude(err error) *protocol.Result {
	dir := h.n.config.Host.Dir
	r := &protocol.Result{Exit: h.exit, InSetup: h.inSetup, Runtimes: h.runtimes, SharedVolume: h.shared}
	if h.exit == nil && err != nil {
		h.mu.Lock()
		r.Kind, r.Message, r.Remedy, r.Host = core.KindOf(err).String(), err.Error(), core.Remedy(err), h.faulty
		h.mu.Unlock()
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.plan.Grace+20*time.Second)
	defer cancel()
	globs := h.volumeGlobs()
	replies := make([]*endReply, h.n.config.Size)
	own := h.n.end(endRequest{Outputs: globs, Grace: 2 * time.Second})
	replies[0] = &own
	h.all(func(rank int, p *wire.Peer) error { //nolint:errcheck // who does not answer has nothing to tell
		var reply endReply
		if err := p.Call(ctx, callEnd, endRequest{Outputs: globs, Grace: 2 * time.Second}, &reply); err != nil {
			return err
		}
		replies[rank] = &reply
		return nil
	})
	for rank, reply := range replies {
		if reply == nil {
			continue
		}
		r.Nodes = append(r.Nodes, reply.Report)
		if rank > 0 && !h.shared {
			if err := h.gather(ctx, rank, reply.Outputs); err != nil {
				h.journal.say("", fmt.Sprintf("warning: outputs of %s could not be brought to the head: %v", h.infosName(rank), err))
			}
		}
	}
	r.Outputs = h.matches(dir)
	r.Ended, r.Phases = time.Now(), h.journal.durations()
	return r
}

// volumeGlobs are the outputs that lie in the volume, relative to it.
func (h *head) volumeGlobs() []string {
	var globs []string
	for _, o := range h.plan.Outputs {
		if rel, ok := strings.CutPrefix(o, strings.TrimSuffix(h.plan.Volume, "/")+"/"); ok {
			globs = append(globs, rel)
		}
	}
	return globs
}

// gather takes from a node the outputs that this one has not.
func (h *head) gather(ctx context.Context, rank int, files []string) error {
	volume := protocol.VolumeDir(h.n.config.Host.Dir)
	var missing []string
	for _, f := range files {
		if _, err := os.Lstat(filepath.Join(volume, f)); errors.Is(err, os.ErrNotExist) && filepath.IsLocal(f) {
			missing = append(missing, f)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	s, err := h.nodes[rank].Open(ctx, callTree, treeRequest{What: treeFiles, Files: missing}, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	return filestream.Receive(ctx, s, volume)
}

// matches lists the files and directories that the outputs name.
func (h *head) matches(dir string) []protocol.OutputMatch {
	list := []protocol.OutputMatch{}
	for i, o := range h.plan.Outputs {
		root, rel := h.hostPath(dir, o)
		if root == "" {
			continue
		}
		found, err := filepath.Glob(filepath.Join(root, rel))
		if err != nil {
			continue
		}
		sort.Strings(found)
		for _, f := range found {
			if p, err := filepath.Rel(dir, f); err == nil && filepath.IsLocal(p) {
				list = append(list, protocol.OutputMatch{Index: i, Path: p})
			}
		}
	}
	return list
}

// hostPath gives where a container path lies on the host.
func (h *head) hostPath(dir, path string) (root, rel string) {
	if path == h.plan.Volume {
		return protocol.VolumeDir(dir), ""
	}
	if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(h.plan.Volume, "/")+"/"); ok {
		return protocol.VolumeDir(dir), rel
	}
	for target, source := range h.plan.Binds {
		if rel, ok := strings.CutPrefix(path, strings.TrimSuffix(target, "/")+"/"); ok || path == target {
			if !ok {
				rel = ""
			}
			return filepath.Join(protocol.InputsDir(dir), source), rel
		}
	}
	return "", ""
}

// leave writes the result, tells those who watch, and lets the nodes go.
func (h *head) leave(r *protocol.Result) {
	if err := writeResult(protocol.ResultPath(h.n.config.Host.Dir), r); err != nil {
		h.n.Log.Error("write result", "err", err)
	}
	h.journal.add(protocol.Event{Rank: -1, Result: r})
	for _, p := range h.nodes {
		p.Close() //nolint:errcheck // it ends with us
	}
}

// all calls every other node at once.
func (h *head) all(call func(rank int, p *wire.Peer) error) error {
	errs := make([]error, h.n.config.Size)
	var wg sync.WaitGroup
	for rank, p := range h.nodes {
		wg.Go(func() { errs[rank] = call(rank, p) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (h *head) infosName(rank int) string {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if rank < len(h.n.members) {
		return h.n.members[rank].Name
	}
	return protocol.NodeName(rank)
}

// inspect asks package mpi about the job's command and image.
func (h *head) inspect(context.Context) ([]string, error) {
	tree, release, err := h.n.images.Tree(h.over, h.plan.Image.ID)
	if err != nil {
		return nil, nil //nolint:nilerr // a runtime without a tree: nothing to look into
	}
	defer release()
	return mpi.Check(mpi.CheckInput{Root: tree, Argv: h.plan.Run, Env: h.n.box.env, Hosts: h.n.config.Size,
		Volume: h.plan.Volume, VolumeDir: protocol.VolumeDir(h.n.config.Host.Dir), Workdir: h.n.box.workdir})
}
