package node

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
)

// silentNode is node 0, which answers nothing while its network is out, by connections that stay. It notes those for
// brokers.
type silentNode struct {
	server *rpc.Server
	leader int
	out    chan struct{} // closed: it is out
	calls  chan int      // of CallBroker
	links  chan int
}

// serve serves a connection, and ends those for brokers.
func (s *silentNode) serve(ctx context.Context, conn net.Conn, identity *wire.Identity) {
	defer conn.Close()
	secure := identity.SecureServer(conn, forData, forVerbs)
	if secure.HandshakeContext(ctx) != nil {
		return
	}
	if secure.ConnectionState().NegotiatedProtocol == forVerbs {
		s.links <- 0
		return
	}
	peer, err := rpc.NewPeer(secure.Conn, false, "node 1", wire.Tolerant, nodecall.Protocol)
	if err == nil {
		_ = peer.Serve(ctx, s.server, rpc.Caller{Role: rpc.Node, Rank: 1}) // until the test ends
	}
}

func (s *silentNode) broker(ctx context.Context, _ rpc.Caller, _ rpc.None) (peercall.BrokerReply, error) {
	s.calls <- 0
	select {
	case <-s.out:
		<-ctx.Done()
	default:
	}
	return peercall.BrokerReply{Rank: s.leader}, nil
}

// newSilentNode returns it, and the links of node 1 to it.
func newSilentNode(t *testing.T) (*silentNode, *verbsLinks) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	authority, err := wire.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	var identities [2]*wire.Identity
	for rank := range identities {
		cert, key, err := authority.Issue(plan.NodeName(rank))
		if err == nil {
			identities[rank], err = wire.NewIdentity(authority.Certificate(), cert, key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	s := &silentNode{server: rpc.NewServer(log), out: make(chan struct{}), calls: make(chan int, 9), links: make(chan int, 9)}
	rpc.Handle(s.server, peercall.CallBroker, s.broker)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(t.Context(), conn, identities[0])
		}
	}()
	c := plan.Config{Rank: 1, Size: 3, Host: core.Host{Name: "beta"}}
	n := newNode(t.Context(), c, Options{Log: log, hostGroup: newHostGroup()}, identities[1])
	n.known.learn(plan.Plan{}, []peercall.Member{{Addr: l.Addr().String(), Machine: "a"}, {Rank: 1, Machine: "b"}, {Rank: 2, Machine: "c"}}, peercall.Network{})
	devices := server.New("", log, nil)
	if err := n.verbs.linkTo(devices, []int{1}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := devices.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, n.verbs.far
}

// TestLinkAfterOutage: brokers connect again as soon as their network is back, and wait for no answer by a
// connection that has died with it.
func TestLinkAfterOutage(t *testing.T) {
	s, l := newSilentNode(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := l.ask(ctx, 0); err != nil {
		t.Fatal(err)
	}
	<-s.links
	close(s.out)
	testkit.Eventually(t, 10*time.Second, func() error { // the connection has ended here, too
		if err := l.ask(ctx, 0); err != nil {
			return err
		}
		if len(s.links) == 0 {
			return fmt.Errorf("no further connection")
		}
		return nil
	})
	if n := len(s.calls); n != 1 {
		t.Errorf("node 0 was asked %d times", n)
	}
}

// TestAskInOutage: what is asked by a dead connection ends soon.
func TestAskInOutage(t *testing.T) {
	s, l := newSilentNode(t)
	close(s.out)
	begun := time.Now()
	if err := l.ask(t.Context(), 0); err == nil || time.Since(begun) > 2*askTime {
		t.Errorf("got %v after %s", err, time.Since(begun))
	}
}

// TestBrokerOfOthers: a node names no broker on another machine as its own.
func TestBrokerOfOthers(t *testing.T) {
	s, l := newSilentNode(t)
	s.leader = 1
	if err := l.ask(t.Context(), 0); !errors.Is(err, errLeader) || len(l.leaders)+len(l.dialed) > 0 {
		t.Errorf("got %v, leaders %v, dialed %v", err, l.leaders, l.dialed)
	}
}
