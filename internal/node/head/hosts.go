package head

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// hosts are the nodes of an attempt as their head knows them: which have joined, what they
// reported, and calls to all of them.
type hosts struct {
	config  plan.Config
	plan    *plan.Plan
	journal *journal.Journal
	end     *ending

	joins  chan joined
	nodes  map[int]*rpc.Peer      // control connections, by rank
	infos  []peercall.JoinRequest // by rank
	groups []int                  // by rank: see beginReply
}

// joined is a node that has come, with its report.
type joined struct {
	peer *rpc.Peer
	r    peercall.JoinRequest
}

func newHosts(c plan.Config, j *journal.Journal, e *ending) *hosts {
	return &hosts{
		config: c, plan: c.Plan, journal: j, end: e, joins: make(chan joined, c.Size),
		nodes: map[int]*rpc.Peer{}, infos: make([]peercall.JoinRequest, c.Size), groups: make([]int, c.Size),
	}
}

// awaitJoins waits for all nodes, and names those that do not come.
func (hs *hosts) awaitJoins(ctx context.Context, addrs []string) error {
	timer := time.NewTimer(hs.plan.JoinTimeout)
	defer timer.Stop()
	news := time.NewTicker(newsPause)
	defer news.Stop()
	for len(hs.nodes) < hs.config.Size-1 {
		select {
		case j := <-hs.joins:
			if hs.nodes[j.r.Rank] != nil {
				j.peer.Close()
				continue
			}
			hs.nodes[j.r.Rank], hs.infos[j.r.Rank] = j.peer, j.r
			go hs.watch(j.r.Rank, j.peer)
		case <-news.C:
			missing := hs.missing()
			hs.journal.Say(core.PhaseJoin, fmt.Sprintf("%d of %d nodes have joined; waiting for %s", hs.config.Size-len(missing), hs.config.Size, hs.listNames(missing)))
		case <-timer.C:
			missing := hs.missing()
			hs.end.blame(hs.nameOf(missing[0]))
			return &core.Error{
				Kind: core.Lost, Op: "wait for nodes",
				Err:    fmt.Errorf("no word from the node on %s within %v", hs.listNames(missing), hs.plan.JoinTimeout),
				Remedy: fmt.Sprintf("Can these hosts reach %s? `bee logs --node %d %s` shows what the first of them wrote.", strings.Join(addrs, " or "), missing[0], hs.config.Owner.Run),
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// missing gives the ranks that have not joined.
func (hs *hosts) missing() []int {
	var ranks []int
	for rank := 1; rank < hs.config.Size; rank++ {
		if hs.nodes[rank] == nil {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

func (hs *hosts) nameOf(rank int) string {
	if rank < len(hs.plan.Names) {
		return hs.plan.Names[rank]
	}
	if rank == 0 {
		return hs.config.Host.Name
	}
	return peercall.RankName(rank)
}

// listNames names some hosts, for people.
func (hs *hosts) listNames(ranks []int) string {
	const most = 8
	var names []string
	for _, rank := range ranks[:min(most, len(ranks))] {
		names = append(names, fmt.Sprintf("%s (node %d)", hs.nameOf(rank), rank))
	}
	if more := len(ranks) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// watch ends the attempt when a node is lost while it is needed.
func (hs *hosts) watch(rank int, p *rpc.Peer) {
	select {
	case <-p.Done():
		hs.fail(rank, hs.lost(rank))
	case <-hs.end.over.Done():
	}
}

// fail ends the attempt because of a host.
func (hs *hosts) fail(rank int, why *core.Error) { hs.end.fail(hs.nameOf(rank), why) }

func (hs *hosts) lost(rank int) *core.Error {
	cut := ""
	if hs.plan.VM != nil && fabricWanted(hs.plan, len(hs.infos)) {
		place := peercall.PlaceOf(hs.config)
		if below := fabric.Below(hs.plan.VM.Fabric, rank/place.Guests, place.Hosts); len(below) > 1 {
			var ranks []int
			for _, host := range below[1:] {
				ranks = append(ranks, place.First(host))
			}
			cut = "; the guests' network had only that way to " + hs.listNames(ranks)
		}
	}
	return &core.Error{
		Kind: core.Lost, Err: fmt.Errorf("host %s (node %d) was lost: it does not answer any more%s", hs.nameOf(rank), rank, cut),
		Remedy: "Look whether the host is up and its node was not killed; then run the job again.",
	}
}

// explain gives the error of a call to a node in terms of hosts.
func (hs *hosts) explain(rank int, p *rpc.Peer, err error) error {
	if err != nil && !p.Alive() {
		return hs.lost(rank)
	}
	return err
}

// complete finds out whether all nodes are still there. A job fails when one of
// its hosts is lost, and may do so before we notice: that is not its own fault.
func (hs *hosts) complete(ctx context.Context) error {
	return hs.all(func(rank int, p *rpc.Peer) error {
		_, err := rpc.Call(ctx, p, peercall.CallHello, rpc.None{})
		if err != nil && !p.Alive() {
			hs.fail(rank, hs.lost(rank))
		}
		return err
	})
}

// each does something for every node at once, with a nil connection for the
// head's own.
func (hs *hosts) each(do func(rank int, p *rpc.Peer)) {
	var wg sync.WaitGroup
	wg.Go(func() { do(0, nil) })
	for rank, p := range hs.nodes {
		wg.Go(func() { do(rank, p) })
	}
	wg.Wait()
}

// all is each for the other nodes. It gives the error of the lowest rank, and
// how many more there are.
func (hs *hosts) all(call func(rank int, p *rpc.Peer) error) error {
	errs := make([]error, hs.config.Size)
	hs.each(func(rank int, p *rpc.Peer) {
		if rank > 0 {
			errs[rank] = hs.explain(rank, p, call(rank, p))
		}
	})
	return hs.firstOf(errs)
}

func (hs *hosts) firstOf(errs []error) error {
	var first error
	more := 0
	for rank, err := range errs {
		switch {
		case err == nil:
		case first == nil:
			first = err
			hs.end.blame(hs.nameOf(rank))
		default:
			more++
		}
	}
	if more > 0 {
		return fmt.Errorf("%w (and %d more hosts failed)", first, more)
	}
	return first
}

// close ends the connections, and with them the nodes.
func (hs *hosts) close() {
	for _, p := range hs.nodes {
		p.Close()
	}
}
