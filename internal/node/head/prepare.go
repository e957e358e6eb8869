package head

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// prepare brings the attempt to where the job's commands can run: all nodes
// joined, image on every host, containers up. The head's own image is got
// ready while the others join.
func (h *Head) prepare(ctx context.Context) error {
	c := h.config
	var err error
	report := h.node.Report(ctx)
	report.Addrs = h.addrs
	h.hosts.infos[0] = report
	token, unmark := "", func() {}
	if c.Size > 1 {
		if h.hosts.infos[0].Nonce, err = h.node.LeaveNonce(); err != nil {
			return err
		}
		token, unmark = h.node.MarkCache()
	}
	defer func() { unmark() }()
	own := make(chan error, 1)
	images := h.images()
	go func() { own <- h.haveImages(ctx, images) }()
	if c.Size > 1 {
		h.journal.Enter(core.PhaseJoin)
		err := h.hosts.awaitJoins(ctx, h.addrs)
		h.journal.End(core.PhaseJoin)
		if err != nil {
			return err
		}
	}
	all := h.hosts.choices()
	all.decideVM()
	all.decideNIC()
	all.warnOfClear()
	if err := all.enoughMemory(); err != nil {
		return err
	}
	members := all.members(h.addrs)
	network := all.network(members)
	if err := h.node.Learn(h.plan, members, network); err != nil {
		return err
	}
	h.journal.Enter(core.PhaseImage)
	err = h.spreadImage(ctx, own, members, network, token)
	h.journal.End(core.PhaseImage)
	if err != nil {
		return err
	}
	h.journal.Enter(core.PhaseStart)
	defer h.journal.End(core.PhaseStart)
	if err := h.burst.mount(ctx); err != nil {
		return err
	}
	if err := container.MakeMountPoints(h.burst.dir(), h.plan); err != nil { // they go into a data image
		return err
	}
	if err := h.chooseVolume(ctx); err != nil {
		return err
	}
	if err := h.burst.mountOthers(ctx); err != nil {
		return err
	}
	if err := errors.Join(h.volumes.asWanted(), h.writeScripts()); err != nil {
		return err
	}
	if err := h.startAll(ctx); err != nil || !h.plan.Restore || !h.plan.UsesDataImage() {
		return err
	}
	return h.image.lock()
}

// images are those that hosts need, by what they are called when they spread.
func (h *Head) images() map[string]core.Image {
	images := map[string]core.Image{spread.Image: h.plan.Image}
	if h.plan.VM != nil {
		images[spread.Guest] = h.plan.VM.Guest
	}
	return images
}

// haveImages gets the head's own images.
func (h *Head) haveImages(ctx context.Context, images map[string]core.Image) error {
	errs := make(chan error, len(images))
	for what, image := range images {
		go func() {
			err := h.node.HaveImage(ctx, what, image, "")
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
func (h *Head) spreadImage(ctx context.Context, own <-chan error, members []peercall.Member, network peercall.Network, cacheToken string) error {
	if h.config.Size == 1 {
		h.volumes.shared = true
		return <-own
	}
	inputs := plan.InputsDir(h.config.Host.Dir)
	h.spreads.Offer(spread.Inputs, func(ctx context.Context, w io.Writer) error { return treesync.Send(ctx, w, inputs, nil) })
	r := peercall.BeginRequest{Members: members, Plan: *h.plan, Network: network, Runtime: h.config.Runtime, CacheToken: cacheToken}
	r.Plan.Setup, r.Plan.Run, r.Plan.Outputs, r.Plan.Sample = nil, nil, nil, 0
	for _, info := range h.hosts.infos {
		r.Nonces = append(r.Nonces, info.Nonce)
	}
	var mu sync.Mutex
	var first error
	ready, reported := 0, time.Now()
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.hosts.each(func(rank int, p *rpc.Peer) {
		var err error
		if rank == 0 {
			reached := make(chan error, 1)
			go func() { reached <- h.peers.ReachOthers(all) }()
			if err = <-own; err == nil {
				err = <-reached
			}
		} else {
			var reply peercall.BeginReply
			if reply, err = rpc.Call(all, p, peercall.CallBegin, r); err == nil && reply.Group > rank {
				err = peercall.Invalid("group of a node", reply.Group)
			}
			err = h.hosts.explain(rank, p, err)
			h.hosts.groups[rank] = reply.Group
		}
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			ready++
			if ready < h.config.Size && time.Since(reported) > newsPause {
				reported = time.Now()
				h.journal.Say(core.PhaseImage, fmt.Sprintf("%d of %d hosts have the image", ready, h.config.Size))
			}
		} else if first == nil {
			first = err
			h.end.blame(h.hosts.nameOf(rank))
			cancel(err) // one failure is enough
		}
	})
	h.volumes.shared = true
	for _, g := range h.hosts.groups {
		h.volumes.shared = h.volumes.shared && (g == 0 || h.plan.Burst != nil)
	}
	return first
}

// startAll starts all containers at once.
func (h *Head) startAll(ctx context.Context) error {
	h.runtimes = make([]string, h.config.Size)
	notes := make([][]string, h.config.Size)
	errs := make([]error, h.config.Size)
	h.spreads.Forget(spread.Image, spread.Guest, spread.Inputs)
	r := peercall.StartRequest{Runtime: h.config.Runtime}
	var up atomic.Int32
	if h.plan.VM != nil {
		r.Volume = h.plan.VM.Volume
		defer h.reportBoots(&up)()
	}
	all, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	h.hosts.each(func(rank int, p *rpc.Peer) {
		if rank == 0 {
			b, err := h.node.RunContainer(ctx, r.Runtime)
			if errs[0] = err; err == nil {
				up.Add(1)
				h.runtimes[0], notes[0] = b.Runtime, b.Notes
			} else if h.plan.UsesDataImage() {
				cancel(errNoVolume) // the others' guests would wait for it
			}
			return
		}
		reply, err := rpc.Call(all, p, peercall.CallStart, r)
		if err != nil && context.Cause(all) == errNoVolume { //nolint:errorlint // that very error
			return // node 0 reports why
		}
		if errs[rank] = h.hosts.explain(rank, p, err); err == nil {
			up.Add(1)
		}
		h.runtimes[rank], notes[rank] = reply.Runtime, reply.Notes
	})
	if err := h.hosts.firstOf(errs); err != nil {
		return err
	}
	h.journal.Add(plan.Event{Phase: core.PhaseStart, Rank: -1, Runtimes: h.runtimes})
	h.reportNotes(notes)
	return nil
}
