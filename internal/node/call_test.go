package node

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

type checked interface{ Check() error }

func TestChecksOfCalls(t *testing.T) {
	join := func(change func(*joinRequest)) joinRequest {
		r := joinRequest{Rank: 1, Addrs: []string{"10.0.0.2:7"}, Reached: "10.0.0.1:8", Cores: 4, Processors: 4, Nonce: newToken()}
		change(&r)
		return r
	}
	begin := func(members ...member) beginRequest {
		return beginRequest{Members: members, Nonces: make([]string, len(members))}
	}
	for _, c := range []struct {
		name string
		v    checked
		ok   bool
	}{
		{"a node joins", join(func(*joinRequest) {}), true},
		{"from nowhere", join(func(r *joinRequest) { r.Reached = "" }), false},
		{"an address that is none", join(func(r *joinRequest) { r.Addrs[0] = "x" }), false},
		{"a negative rank", join(func(r *joinRequest) { r.Rank = -1 }), false},
		{"negative cores", join(func(r *joinRequest) { r.Cores = -1 }), false},
		{"more cores than there are", join(func(r *joinRequest) { r.Cores = 1 << 40 }), false},
		{"a long reason", join(func(r *joinRequest) { r.NoRuntime = strings.Repeat("x", 1<<20) }), false},
		{"members", begin(member{Addr: "10.0.0.1:1"}, member{Rank: 1, Addr: "10.0.0.1:1"}), true},
		{"a lone member", begin(member{}), true},
		{"no members", begin(), false},
		{"members in another order", begin(member{Rank: 1}, member{}), false},
		{"fewer nonces", beginRequest{Members: make([]member, 1)}, false},
		{"a negative group", beginReply{-1}, false},
		{"an end", endReply{core.NodeReport{Rank: 1}}, true},
		{"negative use", endReply{core.NodeReport{UserTime: -1}}, false},
		{"negative memory", endReply{core.NodeReport{MaxRSS: -1}}, false},
		{"a snapshot to save", holdRequest{Do: holdSave, Number: 1}, true},
		{"no snapshot to save", holdRequest{Do: holdSave}, false},
		{"an order that there is not", holdRequest{Do: "burn"}, false},
		{"files outside", holdRequest{Do: holdTake, Globs: []string{"../*"}}, false},
		{"files inside", globs{[]string{"*", ".", "a/b[0-9]"}}, true},
		{"absolute files", globs{[]string{"/etc/passwd"}}, false},
		{"files with NUL", globs{[]string{"a\x00"}}, false},
		{"names", names{[]string{"a", "b/c"}}, true},
		{"a name above", names{[]string{"../x"}}, false},
		{"an absolute name", names{[]string{"/x"}}, false},
		{"too many names", names{make([]string, batch+1)}, false},
		{"a thing", spread.Thing{What: spread.Image}, true},
		{"another thing", spread.Thing{What: "secrets"}, false},
		{"a signal", signalRequest{9}, true},
		{"no signal", signalRequest{}, false},
		{"a signal that there is not", signalRequest{65}, false},
		{"a failure", failure{1, rpc.Fail(context.Canceled)}, true},
		{"a failure of an unknown kind", failure{1, rpc.Failure{Kind: "x"}}, false},
		{"a part", partRequest{Rank: 1}, true},
		{"a part of no snapshot", partRequest{Number: -1}, false},
		{"a long note", note{strings.Repeat("x", 1<<20)}, false},
		{"a look", snapshot.Look{Files: 1}, true},
		{"a negative look", snapshot.Look{Files: -1}, false},
		{"a way to a negative rank", carryRequest{-1}, false},
	} {
		if err := c.v.Check(); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func FuzzCalls(f *testing.F) {
	for _, v := range []any{joinRequest{Rank: 1}, beginRequest{Members: make([]member, 1)}, names{[]string{"a"}}, holdRequest{Do: holdSave}, failure{}, endReply{}} {
		raw, err := json.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if n, err := rpc.Decode[names](raw); err == nil {
			for _, name := range n.Files {
				if !filepath.IsLocal(name) {
					t.Fatalf("%q passed", raw)
				}
			}
		}
		if r, err := rpc.Decode[joinRequest](raw); err == nil && (r.Rank < 0 || r.Cores < 0) {
			t.Fatalf("%q passed", raw)
		}
		if r, err := rpc.Decode[beginRequest](raw); err == nil && len(r.Nonces) != len(r.Members) {
			t.Fatalf("%q passed", raw)
		}
		rpc.Decode[holdRequest](raw) //nolint:errcheck // it must end, no more
		rpc.Decode[failure](raw)     //nolint:errcheck // likewise
		rpc.Decode[endReply](raw)    //nolint:errcheck // likewise
	})
}

// callerOf gives a connection over which a head is called by someone.
func callerOf(t *testing.T, h *head, from rpc.Caller) *rpc.Peer {
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
	go h.n.accept.serve(t.Context(), far, from)
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
	if n.head, err = newHead(n); err != nil {
		t.Fatal(err)
	}
	n.accept.server = n.newServer()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	failed := failure{-1, rpc.Fail(&core.Error{Kind: core.Lost})}
	of := func(role rpc.Role, rank int) *rpc.Peer {
		return callerOf(t, n.head, rpc.Caller{Role: role, Rank: rank})
	}
	agent, controller, node1 := of(rpc.LaunchAgent, -1), of(rpc.Controller, -1), of(rpc.Node, 1)
	for name, call := range map[string]func() error{
		"a launch agent stops the attempt": func() error { _, err := rpc.Call(ctx, agent, nodecall.CallStop, nodecall.StopRequest{}); return err },
		"a launch agent reads the events": func() error {
			_, _, err := rpc.Open(ctx, agent, nodecall.CallWatch, nodecall.WatchRequest{})
			return err
		},
		"a launch agent reports a failure": func() error { _, err := rpc.Call(ctx, agent, callFailed, failed); return err },
		"a launch agent ends a node":       func() error { _, err := rpc.Call(ctx, agent, callEnd, endRequest{}); return err },
		"a launch agent wants a guest's root": func() error {
			_, err := rpc.Call(ctx, agent, nodecall.CallExec, nodecall.ExecRequest{Args: []string{"id"}, Guest: true})
			return err
		},
		"a launch agent starts outside the ranks": func() error {
			_, err := rpc.Call(ctx, agent, nodecall.CallExec, nodecall.ExecRequest{Args: []string{"id"}, Rank: -1})
			return err
		},
		"a controller reports a failure":           func() error { _, err := rpc.Call(ctx, controller, callFailed, failed); return err },
		"a node reports a failure of rank -1":      func() error { _, err := rpc.Call(ctx, node1, callFailed, failed); return err },
		"a node reports a failure of the head":     func() error { _, err := rpc.Call(ctx, node1, callFailed, failure{0, failed.Failed}); return err },
		"a node reports a failure without a cause": func() error { _, err := rpc.Call(ctx, node1, callFailed, failure{Rank: 1}); return err },
		"a node gives orders":                      func() error { _, err := rpc.Call(ctx, node1, callEnd, endRequest{}); return err },
		"a node joins as another": func() error {
			_, err := rpc.Call(ctx, node1, callJoin, joinRequest{Rank: 0, Reached: "1.2.3.4:5"})
			return err
		},
		"a node wants another's machine": func() error { _, _, err := rpc.Open(ctx, node1, callPart, partRequest{Rank: 0}); return err },
	} {
		if err := call(); !core.IsKind(err, core.Invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n.head.end.over.Err() != nil {
		t.Fatal("the attempt was ended")
	}
	if _, err := rpc.Call(ctx, node1, callFailed, failure{1, failed.Failed}); err != nil || n.head.end.over.Err() == nil {
		t.Errorf("a node's own failure: %v", err)
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
			go p.Serve(t.Context(), n.accept.server, rpc.Caller{Role: rpc.Controller}) //nolint:errcheck // it ends with the test
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
	n.drain(10 * time.Second)
	far.Close() // as the node ends
	if err := <-answer; err != nil {
		t.Error(err)
	}
}
