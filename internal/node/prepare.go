package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// prepare brings the attempt to where the job's commands can run: all nodes
// joined, image on every host, containers up. The head's own image is got
// ready while the others join.
func (h *head) prepare(ctx context.Context) error {
	c := h.n.config
	var err error
	h.infos[0] = joinRequest{Rank: 0, Addrs: h.addrs, Cores: cores(c), Processors: runtime.NumCPU(), Machine: machine(), Memory: h.n.memory, NoRuntime: h.n.noRuntime(ctx), NoRings: h.n.noRings(ctx)}
	token, unmark := "", func() {}
	if c.Size > 1 {
		if h.infos[0].Nonce, err = h.n.leaveNonce(); err != nil {
			return err
		}
		token, unmark = h.n.markCache()
	}
	defer func() { unmark() }()
	own := make(chan error, 1)
	images := h.images()
	go func() { own <- h.haveImages(ctx, images) }()
	if c.Size > 1 {
		h.n.setPhase(core.PhaseJoin)
		h.journal.begin(core.PhaseJoin)
		err := h.awaitJoins(ctx)
		h.journal.end(core.PhaseJoin)
		if err != nil {
			return err
		}
	}
	h.decideVM()
	h.decideNIC()
	h.warnOfClear()
	if err := h.enoughMemory(); err != nil {
		return err
	}
	members, network := h.members(), h.network()
	h.n.mu.Lock()
	h.n.members, h.n.plan, h.n.network = members, *h.plan, network
	h.n.mu.Unlock()
	if err := h.n.joinFabric(h.plan); err != nil {
		return err
	}
	h.n.setPhase(core.PhaseImage)
	h.journal.begin(core.PhaseImage)
	err = h.spreadImage(ctx, own, token)
	h.journal.end(core.PhaseImage)
	if err != nil {
		return err
	}
	h.n.setPhase(core.PhaseStart)
	h.journal.begin(core.PhaseStart)
	defer h.journal.end(core.PhaseStart)
	if err := makeMountPoints(plan.VolumeDir(h.n.config.Host.Dir), h.plan); err != nil { // they go into a data image
		return err
	}
	if err := h.chooseVolume(ctx); err != nil {
		return err
	}
	if err := errors.Join(h.volumeAsWanted(), h.writeScripts()); err != nil {
		return err
	}
	if err := h.startAll(ctx); err != nil || !h.plan.Restore || !h.hasVolumeImage() {
		return err
	}
	return h.lockImage()
}

// images are those that hosts need, by what they are called when they spread.
func (h *head) images() map[string]core.Image {
	images := map[string]core.Image{spreadImage: h.plan.Image}
	if h.plan.VM != nil {
		images[spreadGuest] = h.plan.VM.Guest
	}
	return images
}

// haveImages gets the head's own images.
func (h *head) haveImages(ctx context.Context, images map[string]core.Image) error {
	errs := make(chan error, len(images))
	for what, image := range images {
		go func() {
			err := h.n.haveImage(ctx, what, image, "")
			if err == nil {
				close(h.ready[what])
			}
			errs <- err
		}()
	}
	var all error
	for range images {
		all = errors.Join(all, <-errs)
	}
	return all
}

// spreadImage lets every host get the image, while the hosts try whether they
// reach each other. own reports the head's image.
func (h *head) spreadImage(ctx context.Context, own <-chan error, cacheToken string) error {
	if h.n.config.Size == 1 {
		h.shared = true
		return <-own
	}
	inputs := plan.InputsDir(h.n.config.Host.Dir)
	h.n.offer(spreadInputs, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, inputs, nil) })
	r := beginRequest{Members: h.n.members, Plan: *h.plan, Network: h.n.network, Runtime: h.n.config.Runtime, CacheToken: cacheToken}
	r.Plan.Setup, r.Plan.Run, r.Plan.Outputs = nil, nil, nil
	for _, info := range h.infos {
		r.Nonces = append(r.Nonces, info.Nonce)
	}
	var first error
	ready, reported := 0, time.Now()
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.each(func(rank int, p *rpc.Peer) {
		var err error
		if rank == 0 {
			reached := make(chan error, 1)
			go func() { reached <- h.n.reachOthers(all) }()
			if err = <-own; err == nil {
				err = <-reached
			}
		} else {
			var reply beginReply
			if reply, err = rpc.Call(all, p, callBegin, r); err == nil && reply.Group > rank {
				err = invalid("group of a node", reply.Group)
			}
			err = h.explain(rank, p, err)
			h.groups[rank] = reply.Group
		}
		h.mu.Lock()
		defer h.mu.Unlock()
		if err == nil {
			ready++
			if ready < h.n.config.Size && time.Since(reported) > newsPause {
				reported = time.Now()
				h.journal.say(core.PhaseImage, fmt.Sprintf("%d of %d hosts have the image", ready, h.n.config.Size))
			}
		} else if first == nil {
			first = err
			if ctx.Err() == nil && h.faulty == "" {
				h.faulty = h.nameOf(rank)
			}
			cancel(err) // one failure is enough
		}
	})
	h.shared = true
	for _, g := range h.groups {
		h.shared = h.shared && g == 0
	}
	return first
}

// newsPause is how often people are notified of what is not done yet.
const newsPause = 3 * time.Second

// awaitJoins waits for all nodes, and names those that do not come.
func (h *head) awaitJoins(ctx context.Context) error {
	timer := time.NewTimer(h.plan.JoinTimeout)
	defer timer.Stop()
	news := time.NewTicker(newsPause)
	defer news.Stop()
	for len(h.nodes) < h.n.config.Size-1 {
		select {
		case j := <-h.joins:
			if h.nodes[j.r.Rank] != nil {
				j.peer.Close()
				continue
			}
			h.nodes[j.r.Rank], h.infos[j.r.Rank] = j.peer, j.r
			go h.watchNode(j.r.Rank, j.peer)
		case <-news.C:
			missing := h.missing()
			h.journal.say(core.PhaseJoin, fmt.Sprintf("%d of %d nodes have joined; waiting for %s", h.n.config.Size-len(missing), h.n.config.Size, h.listNames(missing)))
		case <-timer.C:
			missing := h.missing()
			h.mu.Lock()
			h.faulty = h.nameOf(missing[0])
			h.mu.Unlock()
			return &core.Error{
				Kind: core.Lost, Op: "wait for nodes",
				Err:    fmt.Errorf("no word from the node on %s within %v", h.listNames(missing), h.plan.JoinTimeout),
				Remedy: fmt.Sprintf("Can these hosts reach %s? `bee logs --node %d %s` shows what the first of them wrote.", strings.Join(h.addrs, " or "), missing[0], h.n.config.Owner.Run),
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// missing gives the ranks that have not joined.
func (h *head) missing() []int {
	var ranks []int
	for rank := 1; rank < h.n.config.Size; rank++ {
		if h.nodes[rank] == nil {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// listNames names some hosts, for people.
func (h *head) listNames(ranks []int) string {
	const most = 8
	var names []string
	for _, rank := range ranks[:min(most, len(ranks))] {
		names = append(names, fmt.Sprintf("%s (node %d)", h.nameOf(rank), rank))
	}
	if more := len(ranks) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// members is the table of all nodes. The head's own address is the one by
// which most of the others got through.
func (h *head) members() []member {
	votes := map[string]int{}
	best := ""
	if len(h.addrs) > 0 {
		best = h.addrs[0]
	}
	for _, info := range h.infos[1:] {
		if votes[info.Reached]++; votes[info.Reached] > votes[best] {
			best = info.Reached
		}
	}
	list := make([]member, len(h.infos))
	for rank, info := range h.infos {
		addr := best
		if rank > 0 && len(info.Addrs) > 0 {
			addr = info.Addrs[0]
		}
		slots := h.plan.Slots
		if slots == 0 {
			slots = info.Cores
		}
		list[rank] = member{
			Rank: rank, Name: h.nameOf(rank), Addr: addr, IP: hostOf(addr), Cores: info.Cores, Slots: slots,
			Processors: info.Processors, Machine: info.Machine,
		}
		if h.plan.VM != nil {
			h.inMachine(&list[rank])
		}
	}
	return list
}

// network is how the nodes reach each other, as far as it is one for all.
func (h *head) network() networkInfo {
	if h.plan.VM != nil {
		return h.fabricNetwork()
	}
	if len(h.infos) == 1 {
		return networkInfo{}
	}
	net := networkOf(h.members()[0].IP)
	for _, info := range h.infos[1:] {
		switch {
		case net.CIDR == "":
			net.CIDR = info.Network.CIDR
		case info.Network.CIDR != "" && !slices.Contains(strings.Split(net.CIDR, ","), info.Network.CIDR):
			net.CIDR += "," + info.Network.CIDR // hosts in several subnets
		}
		if info.Network.Interface != net.Interface {
			net.Interface = ""
		}
	}
	return net
}

func (h *head) nameOf(rank int) string {
	if rank < len(h.plan.Names) {
		return h.plan.Names[rank]
	}
	if rank == 0 {
		return h.n.config.Host.Name
	}
	return rankName(rank)
}

// watchNode ends the attempt when a node is lost while it is needed.
func (h *head) watchNode(rank int, p *rpc.Peer) {
	select {
	case <-p.Done():
		h.fail(rank, h.lost(rank))
	case <-h.over.Done():
	}
}

func (h *head) lost(rank int) *core.Error {
	cut := ""
	if h.plan.VM != nil && h.fabricWanted() {
		place := placeOf(h.n.config)
		if below := fabric.Below(h.plan.VM.Fabric, rank/place.Guests, place.Hosts); len(below) > 1 {
			var ranks []int
			for _, host := range below[1:] {
				ranks = append(ranks, place.First(host))
			}
			cut = "; the guests' network had only that way to " + h.listNames(ranks)
		}
	}
	return &core.Error{
		Kind: core.Lost, Err: fmt.Errorf("host %s (node %d) was lost: it does not answer any more%s", h.nameOf(rank), rank, cut),
		Remedy: "Look whether the host is up and its node was not killed; then run the job again.",
	}
}

// explain gives the error of a call to a node in terms of hosts.
func (h *head) explain(rank int, p *rpc.Peer, err error) error {
	if err != nil && !alive(p) {
		return h.lost(rank)
	}
	return err
}

// startAll starts all containers at once.
func (h *head) startAll(ctx context.Context) error {
	h.runtimes = make([]string, h.n.config.Size)
	notes := make([][]string, h.n.config.Size)
	errs := make([]error, h.n.config.Size)
	h.n.forget(spreadImage, spreadGuest, spreadInputs)
	r := startRequest{Runtime: h.n.config.Runtime}
	var up atomic.Int32
	if h.plan.VM != nil {
		r.Volume = h.plan.VM.Volume
		defer h.reportBoots(&up)()
	}
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			b, err := h.n.runBox(ctx, r.Runtime)
			if errs[0] = err; err == nil {
				up.Add(1)
				h.runtimes[0], notes[0] = b.runtime, b.notes
			} else if h.hasVolumeImage() {
				cancel(errNoVolume) // the others' guests would wait for it
			}
			return
		}
		reply, err := rpc.Call(all, p, callStart, r)
		if err != nil && context.Cause(all) == errNoVolume { //nolint:errorlint // that very error
			return // node 0 reports why
		}
		if errs[rank] = h.explain(rank, p, err); err == nil {
			up.Add(1)
		}
		h.runtimes[rank], notes[rank] = reply.Runtime, reply.Notes
	})
	if err := h.firstOf(errs); err != nil {
		return err
	}
	h.journal.add(plan.Event{Phase: core.PhaseStart, Rank: -1, Runtimes: h.runtimes})
	h.reportNotes(notes)
	return nil
}

func writeResult(path string, r *plan.Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(path, raw, 0o600)
}
