package node

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// callerOf gives a connection over which a node is called by someone.
func callerOf(t *testing.T, n *node, from rpc.Caller) *rpc.Peer {
	t.Helper()
	l, err := wire.ListenUnix(filepath.Join(t.TempDir(), "node.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := wire.DialUnix(t.Context(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	there, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	far, err := rpc.NewPeer(there, false, "caller", wire.Local, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	go n.accept.serve(t.Context(), far, from)
	p, err := rpc.Dial(conn, "head", wire.Local, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestWhoMayCallAHead: a container has the one call that its launch agent needs, and no
// caller reports a failure of another.
func TestWhoMayCallAHead(t *testing.T) {
	dir := t.TempDir()
	n := newNode(t.Context(), plan.Config{Size: 2, Host: core.Host{Name: "a", Dir: dir}, Plan: &plan.Plan{}}, Options{Log: slog.New(slog.DiscardHandler)}, nil)
	var err error
	if n.head, err = n.newHead(); err != nil {
		t.Fatal(err)
	}
	n.accept.server = n.newServer()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	failed := peercall.Failure{Rank: -1, Failed: rpc.Fail(&core.Error{Kind: core.Lost})}
	of := func(role rpc.Role, rank int) *rpc.Peer {
		return callerOf(t, n, rpc.Caller{Role: role, Rank: rank})
	}
	agent, controller, node1 := of(rpc.LaunchAgent, -1), of(rpc.Controller, -1), of(rpc.Node, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := rpc.Call(ctx, node1, peercall.CallAwaitImage, spread.Thing{What: spread.Image}) // no image comes
		ended <- err
	}()
	for name, call := range map[string]func() error{
		"a launch agent stops the attempt": func() error { _, err := rpc.Call(ctx, agent, nodecall.CallStop, nodecall.StopRequest{}); return err },
		"a launch agent reads the events": func() error {
			_, _, err := rpc.Open(ctx, agent, nodecall.CallWatch, nodecall.WatchRequest{})
			return err
		},
		"a launch agent reports a failure": func() error { _, err := rpc.Call(ctx, agent, peercall.CallFailed, failed); return err },
		"a launch agent ends a node":       func() error { _, err := rpc.Call(ctx, agent, peercall.CallEnd, peercall.EndRequest{}); return err },
		"a launch agent wants a guest's root": func() error {
			_, err := rpc.Call(ctx, agent, nodecall.CallExec, nodecall.ExecRequest{Args: []string{"id"}, Guest: true})
			return err
		},
		"a launch agent starts outside the ranks": func() error {
			_, err := rpc.Call(ctx, agent, nodecall.CallExec, nodecall.ExecRequest{Args: []string{"id"}, Rank: -1})
			return err
		},
		"a controller reports a failure":      func() error { _, err := rpc.Call(ctx, controller, peercall.CallFailed, failed); return err },
		"a node reports a failure of rank -1": func() error { _, err := rpc.Call(ctx, node1, peercall.CallFailed, failed); return err },
		"a node reports a failure of the head": func() error {
			_, err := rpc.Call(ctx, node1, peercall.CallFailed, peercall.Failure{Rank: 0, Failed: failed.Failed})
			return err
		},
		"a node reports a failure without a cause": func() error {
			_, err := rpc.Call(ctx, node1, peercall.CallFailed, peercall.Failure{Rank: 1})
			return err
		},
		"a launch agent reaches the volume's I/O process": func() error {
			_, _, err := rpc.Open(ctx, agent, peercall.CallVolume, rpc.None{})
			return err
		},
		"a node mounts a volume": func() error {
			_, err := rpc.Call(ctx, node1, peercall.CallMount, peercall.MountRequest{ID: "1a2b3c4d"})
			return err
		},
		"a node gives orders": func() error { _, err := rpc.Call(ctx, node1, peercall.CallEnd, peercall.EndRequest{}); return err },
		"a node joins as another": func() error {
			_, err := rpc.Call(ctx, node1, peercall.CallJoin, peercall.JoinRequest{Rank: 0, Reached: "1.2.3.4:5"})
			return err
		},
		"a node wants another's machine": func() error {
			_, _, err := rpc.Open(ctx, node1, peercall.CallPart, peercall.PartRequest{Rank: 0})
			return err
		},
	} {
		if err := call(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("the attempt was ended: %v", err)
	default:
	}
	if _, err := rpc.Call(ctx, node1, peercall.CallFailed, peercall.Failure{Rank: 1, Failed: failed.Failed}); err != nil {
		t.Errorf("a node's own failure: %v", err)
	}
	if err := <-ended; !core.IsKind(err, core.Lost) {
		t.Errorf("the attempt ended with %v", err)
	}
}

// TestANodeAnswersBeforeItEnds: a call that ends its attempt, such as one for a checkpoint,
// went well.
func TestANodeAnswersBeforeItEnds(t *testing.T) {
	method, end := rpc.Method[rpc.None, rpc.None]{Name: "held", By: rpc.Controller}, make(chan struct{})
	n := &node{accept: &acceptor{server: rpc.NewServer(nil)}}
	begun := make(chan struct{})
	rpc.Handle(n.accept.server, method, func(context.Context, rpc.Caller, rpc.None) (rpc.None, error) {
		close(begun)
		<-end
		return rpc.None{}, nil
	})
	a, b := net.Pipe()
	near := make(chan *rpc.Peer, 1)
	go func() {
		p, err := rpc.NewPeer(b, false, "controller", wire.Prompt, nodecall.Protocol)
		if err == nil {
			go p.Serve(t.Context(), n.accept.server, rpc.Caller{Role: rpc.Controller})
		}
		near <- p
	}()
	p, err := rpc.Dial(a, "node", wire.Prompt, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	far := <-near
	answer := make(chan error, 1)
	go func() {
		_, err := rpc.Call(t.Context(), p, method, rpc.None{})
		answer <- err
	}()
	<-begun
	time.AfterFunc(50*time.Millisecond, func() { close(end) })
	n.drain(time.Minute)
	far.Close() // as the node ends
	if err := <-answer; err != nil {
		t.Error(err)
	}
}
