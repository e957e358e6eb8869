package head

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
)

// usingNode is a node whose containers use the same all the time.
type usingNode struct{ Node }

func (usingNode) Use(context.Context) (core.Use, error) { return core.Use{1, 100, 0, 0}, nil }

// peerThat connects to a node that answers calls of a server.
func peerThat(t *testing.T, s *rpc.Server) *rpc.Peer {
	t.Helper()
	here, there := net.Pipe()
	far := make(chan error, 1)
	go func() {
		p, err := rpc.NewPeer(there, false, "head", wire.Prompt, nodecall.Protocol)
		if err == nil {
			go p.Serve(t.Context(), s, rpc.Caller{Role: rpc.Head})
		}
		far <- err
	}()
	p, err := rpc.Dial(here, "node", wire.Prompt, nodecall.Protocol)
	if err := errors.Join(err, <-far); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestSamplesOfHostileNodes: what no node can use, or one that does not answer, is missing, and
// holds nothing up. A node of an earlier bee is asked once.
func TestSamplesOfHostileNodes(t *testing.T) {
	c := plan.Config{Size: 6, Host: core.Host{Name: "a", Dir: t.TempDir()}, Plan: &plan.Plan{Sample: time.Minute}}
	of := partsOf(t, c)
	of.Node = usingNode{of.Node}
	h, err := New(of)
	if err != nil {
		t.Fatal(err)
	}
	answering := func(use core.Use) *rpc.Server {
		s := rpc.NewServer(nil)
		rpc.Handle(s, rawUse, func(context.Context, rpc.Caller, rpc.None) (rawReply, error) { return rawReply{Use: use}, nil })
		return s
	}
	hangs := rpc.NewServer(nil)
	rpc.Handle(hangs, peercall.CallUse, func(ctx context.Context, _ rpc.Caller, _ rpc.None) (peercall.UseReply, error) {
		<-ctx.Done()
		return peercall.UseReply{}, ctx.Err()
	})
	earlier := rpc.NewServer(nil)
	for rank, s := range map[int]*rpc.Server{1: answering(core.Use{3, 300, 0, 0}), 2: answering(core.Use{-1, 1e300, 0, 0}), 3: answering(make(core.Use, 10_000)), 4: hangs, 5: earlier} {
		h.hosts.nodes[rank] = peerThat(t, s)
	}
	h.samples.last = time.Now().Add(-10 * time.Second)
	h.samples.take(t.Context(), time.Second)
	if u := h.samples.pending; u.Nodes != 2 || u.Mean[core.UseCores] != 2 || u.Most[core.UseMemory] != 300 || len(u.Single) != 6 || u.Seconds < 10 {
		t.Errorf("gathered %+v", u)
	}
	if !h.samples.unable[5] || len(h.samples.unable) != 1 {
		t.Errorf("those are not asked again: %v", h.samples.unable)
	}
	h.samples.pass(0)
	if events := eventsOf(h.journal); len(events) != 1 || events[0].Used == nil || events[0].Check(plan.Asked{Nodes: 6}, 0) != nil {
		t.Errorf("events %+v", events)
	}
}

// rawUse is the call without the checks of its answer.
var rawUse = rpc.Method[rpc.None, rawReply]{Name: peercall.CallUse.Name, By: rpc.Head}

type rawReply struct {
	Use core.Use `json:"use"`
}

// countingNode counts how often it is asked.
type countingNode struct {
	Node
	asked *atomic.Int64
}

func (n countingNode) Use(context.Context) (core.Use, error) {
	n.asked.Add(1)
	return core.Use{1, 100, 0, 0}, nil
}

// TestSamplesFollowAJob: from its first second on, until its end. A job that is shorter has none,
// nor has one whose controller does not ask for them.
func TestSamplesFollowAJob(t *testing.T) {
	c := plan.Config{Size: 1, Host: core.Host{Name: "a", Dir: t.TempDir()}, Plan: &plan.Plan{}}
	of := partsOf(t, c)
	var asked atomic.Int64
	of.Node = countingNode{of.Node, &asked}
	h, err := New(of)
	if err != nil {
		t.Fatal(err)
	}
	h.samples.follow(t.Context())()
	c.Plan.Sample = time.Hour
	if h, err = New(of); err != nil {
		t.Fatal(err)
	}
	h.samples.follow(t.Context())()
	if n := asked.Load(); n != 0 {
		t.Errorf("%d samples of jobs that have none", n)
	}
	h.samples.every = 10 * time.Millisecond
	done := h.samples.follow(t.Context())
	testkit.Eventually(t, time.Minute, func() error {
		if asked.Load() < 3 {
			return errors.New("there are not three samples yet")
		}
		return nil
	})
	done()
	var seconds float64
	for _, e := range eventsOf(h.journal) {
		if e.Used == nil || e.Used.Nodes != 1 {
			t.Fatalf("event %+v", e)
		}
		seconds += e.Used.Seconds
	}
	if whole := time.Since(h.samples.begun).Seconds(); seconds <= 0 || seconds > whole {
		t.Errorf("the samples are of %v s of %v", seconds, whole)
	}
}
