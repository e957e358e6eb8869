package node

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/google/renameio/v2"
)

// prepare brings the attempt to where the job's commands can run: all nodes
// joined, image on every host, containers up.
func (h *head) prepare(ctx context.Context) error {
	c := h.n.config
	h.infos[0] = joinRequest{Rank: 0, Addrs: h.addrs, Cores: cores(c)}
	if c.Size > 1 {
		h.n.setPhase(protocol.PhaseJoin)
		h.journal.begin(protocol.PhaseJoin)
		err := h.awaitJoins(ctx)
		h.journal.end(protocol.PhaseJoin)
		if err != nil {
			return err
		}
	}
	h.n.mu.Lock()
	h.n.members, h.n.plan = h.members(), *h.plan
	h.n.mu.Unlock()
	for rank, p := range h.nodes {
		go h.watchNode(rank, p)
	}
	h.n.setPhase(protocol.PhaseImage)
	h.journal.begin(protocol.PhaseImage)
	err := h.n.haveImage(ctx, h.plan.Image)
	h.journal.end(protocol.PhaseImage)
	if err != nil {
		return err
	}
	close(h.n.inputReady)
	h.n.setPhase(protocol.PhaseStart)
	h.journal.begin(protocol.PhaseStart)
	defer h.journal.end(protocol.PhaseStart)
	return h.startAll(ctx)
}

// awaitJoins waits for all nodes, and names those that do not come.
func (h *head) awaitJoins(ctx context.Context) error {
	timer := time.NewTimer(h.plan.JoinTimeout)
	defer timer.Stop()
	for len(h.nodes) < h.n.config.Size-1 {
		select {
		case j := <-h.joins:
			h.nodes[j.r.Rank] = j.peer
			h.infos[j.r.Rank] = j.r
			h.network = j.r.Network
			h.n.mu.Lock()
			h.n.peers[j.r.Rank] = j.peer
			h.n.mu.Unlock()
			h.journal.add(protocol.Event{Phase: protocol.PhaseJoin, Rank: j.r.Rank, Message: "nodes have joined", Done: int64(len(h.nodes) + 1), Total: int64(h.n.config.Size)})
		case <-timer.C:
			return &core.Error{Kind: core.Lost, Op: "wait for nodes",
				Err:    fmt.Errorf("node %s did not join the head within %v", strings.Join(h.missing(), ", "), h.plan.JoinTimeout),
				Remedy: fmt.Sprintf("Can these hosts reach %s? `bee logs --node N RUN` shows what node N wrote.", strings.Join(h.addrs, " or "))}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (h *head) missing() []string {
	var names []string
	for rank := 1; rank < h.n.config.Size; rank++ {
		if h.nodes[rank] == nil {
			names = append(names, fmt.Sprint(rank))
		}
	}
	return names
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
		list[rank] = member{Rank: rank, Name: h.nameOf(rank), Addr: addr, IP: hostOf(addr), Cores: info.Cores, Slots: slots}
	}
	return list
}

func (h *head) nameOf(rank int) string {
	if rank < len(h.plan.Names) {
		return h.plan.Names[rank]
	}
	return h.n.config.Host.Name
}

// watchNode ends the attempt when a node is lost while it is needed.
func (h *head) watchNode(rank int, p *wire.Peer) {
	select {
	case <-p.Done():
		h.fail(rank, &core.Error{Kind: core.Lost, Err: fmt.Errorf("host %s (node %d) was lost: it does not answer any more", h.infosName(rank), rank),
			Remedy: "Look whether the host is up and its node was not killed; then run the job again."})
	case <-h.over.Done():
	}
}

// startAll starts all containers at once.
func (h *head) startAll(ctx context.Context) error {
	members := h.n.members
	h.runtimes = make([]string, len(members))
	h.shared = true
	r := beginRequest{Members: members, Plan: *h.plan, Network: h.network, Runtime: h.n.config.Runtime}
	r.Plan.Setup, r.Plan.Run, r.Plan.Outputs = nil, nil, nil
	own := make(chan error, 1)
	go func() {
		b, err := h.n.startBox(ctx, h.plan, members, h.network, h.n.config.Runtime)
		if err == nil {
			h.n.mu.Lock()
			h.n.box = b
			h.n.mu.Unlock()
			h.runtimes[0] = b.runtime
			go h.n.watchBox(context.Background(), b) // as long as the container, not the start
		}
		own <- err
	}()
	var err error
	if len(h.nodes) > 0 {
		if r.Token, err = h.leaveToken(); err == nil {
			err = h.all(func(rank int, p *wire.Peer) error {
				var reply beginReply
				if err := p.Call(ctx, callBegin, r, &reply); err != nil {
					return err
				}
				h.mu.Lock()
				defer h.mu.Unlock()
				h.runtimes[rank] = reply.Runtime
				h.shared = h.shared && reply.Shared
				return nil
			})
		}
	}
	return errors.Join(<-own, err)
}

// leaveToken writes a file by which other hosts find out whether they see this
// host's directory.
func (h *head) leaveToken() (string, error) {
	var raw [16]byte
	rand.Read(raw[:]) //nolint:errcheck // never fails
	token := "token-" + hex.EncodeToString(raw[:])
	return token, os.WriteFile(filepath.Join(h.n.config.Host.Dir, token), []byte(token), 0o600)
}

func writeResult(path string, r *protocol.Result) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return renameio.WriteFile(path, raw, 0o600)
}
