package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/hashicorp/yamux"
)

// agent is a container agent, and the session that its host has with it.
type agent struct {
	*containerAgent
	host *rpc.Peer
}

// newAgent returns an agent whose questions for the brokers of other nodes ask answers.
func newAgent(t *testing.T, ask func(ctx context.Context, rank int) error, more ...func(*rpc.Server)) *agent {
	t.Helper()
	dir, err := os.MkdirTemp("", "agent-") // that of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	outside, inside := net.Pipe()
	a := &agent{containerAgent: &containerAgent{home: dir}}
	if a.peer, err = rpc.NewPeer(inside, false, "the host", wire.Local, api.Protocol); err != nil {
		t.Fatal(err)
	}
	if a.host, err = rpc.NewPeer(outside, true, "the guest", wire.Local, api.Protocol); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.host.Close(); a.peer.Close() })
	s := rpc.NewServer(nil)
	rpc.Handle(s, api.CallAsk, func(ctx context.Context, _ rpc.Caller, r api.BrokerRequest) (rpc.None, error) {
		return rpc.None{}, ask(ctx, r.Rank)
	})
	for _, add := range more {
		add(s)
	}
	go a.host.Serve(t.Context(), s, rpc.Caller{Role: rpc.Guest, Rank: -1})
	go a.peer.Serve(t.Context(), a.server(), rpc.Caller{Role: rpc.Host, Rank: -1})
	return a
}

// brokerOptions are those of a run with so many nodes.
func brokerOptions(rank, nodes int) driver.BrokerOptions {
	o := driver.BrokerOptions{Rank: rank, Library: "/.bee/verbs.so", Socket: "/.bee/rdma.sock", Node: "/dev/infiniband/uverbs0"}
	for r := range nodes {
		o.Ports = append(o.Ports, driver.BrokerPort{LID: uint16(r + 1), GID: [16]byte{0: 0xfe, 1: 0x80, 15: byte(r + 1)}, IP: netip.AddrFrom4([4]byte{10, 77, 0, byte(r + 1)})})
	}
	return o
}

// join has the hosts of two agents join their brokers, until either side ends.
func join(ctx context.Context, agents [2]*agent) error {
	var streams [2]*rpc.Stream
	for i, a := range agents {
		s, _, err := rpc.Open(ctx, a.host, api.CallLink, api.BrokerRequest{Rank: 1 - i})
		if err != nil {
			return errors.Join(err, closeAll(streams[:i]))
		}
		streams[i] = s
	}
	go func() {
		splice(streams[0], streams[1])
		core.BestEffort(closeAll(streams[:]))
	}()
	return nil
}

func closeAll(streams []*rpc.Stream) (err error) {
	for _, s := range streams {
		err = errors.Join(err, s.Close())
	}
	return err
}

// TestBrokersOfGuests: programs in two guests exchange data by the brokers of their agents, whose hosts pass on what
// these send. Each agent asks for the other by itself.
func TestBrokersOfGuests(t *testing.T) {
	program := testkit.RequireTool(t, "ibv_rc_pingpong")
	var agents [2]*agent
	asked := make(chan int, 1024)
	for i := range agents {
		agents[i] = newAgent(t, func(_ context.Context, rank int) error {
			if asked <- rank; rank == 1 { // the other one connects
				return nil
			}
			return join(t.Context(), agents)
		})
	}
	for i, a := range agents {
		var spec driver.ContainerSpec
		if err := a.startBroker(brokerOptions(i, 2), &spec); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { a.verbs.port.Close() })
		if len(spec.Mounts) != 2 || spec.Mounts[0].Target != "/.bee/verbs.so" || !spec.Mounts[0].ReadOnly || spec.Mounts[1].Target != "/.bee/rdma.sock" || !spec.Faults ||
			len(spec.Devices) != 1 || spec.Devices[0] != (driver.Device{Source: "/dev/null", Target: "/dev/infiniband/uverbs0"}) {
			t.Errorf("container %d has %+v", i, spec)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	start := func(ctx context.Context, i, port int, args ...string) (*exec.Cmd, *bytes.Buffer) {
		c := exec.CommandContext(ctx, program, append([]string{"-c", "-n", "50", "-p", fmt.Sprint(port)}, args...)...)
		c.Env = append(os.Environ(), "LD_PRELOAD="+filepath.Join(agents[i].home, verbsFile), "BEE_RDMA_SOCKET="+filepath.Join(agents[i].home, verbsSocket))
		var out bytes.Buffer
		c.Stdout, c.Stderr = &out, &out
		return c, &out
	}
	testkit.Eventually(t, 50*time.Second, func() error { // the agents are linked by then, and the server listens
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		port := testkit.FreePort(t)
		server, served := start(ctx, 0, port)
		if err := server.Start(); err != nil {
			return err
		}
		client, out := start(ctx, 1, port, "127.0.0.1")
		testkit.Eventually(t, 10*time.Second, func() error { return testkit.Listening(port) })
		err := client.Run()
		if err != nil { // a server whose client has failed meets no other one
			cancel()
		}
		if werr := server.Wait(); err == nil {
			err = werr
		}
		if err != nil {
			return fmt.Errorf("the client: %w\n%s\nthe server:\n%s", err, out, served)
		}
		return nil
	})
	for i, a := range agents {
		p, err := rpc.Call(ctx, a.host, api.CallVerbs, rpc.None{})
		if err != nil || p.Rank != i || p.Bytes.Forwarded == 0 || p.Operations.Sends == 0 || p.Objects.QueuePairs != 0 {
			t.Errorf("guest %d has done %+v, %v", i, p, err)
		}
		d, err := rpc.Call(ctx, a.host, api.CallDevices, rpc.None{})
		if err != nil || len(d.RDMA) != 1 || d.RDMA[0].Name != "bee_0" {
			t.Errorf("guest %d has the devices %+v, %v", i, d, err)
		}
		for _, other := range []int{i, 2} { // that are no others
			if s, _, err := rpc.Open(ctx, a.host, api.CallLink, api.BrokerRequest{Rank: other}); err == nil {
				s.Close()
				t.Errorf("guest %d connects with node %d", i, other)
			}
			if _, err := rpc.Call(ctx, a.host, api.CallRenew, api.BrokerRequest{Rank: other}); err == nil {
				t.Errorf("guest %d renews its connection with node %d", i, other)
			}
		}
	}
	close(asked)
	for rank := range asked {
		if rank != 0 && rank != 1 {
			t.Errorf("a guest asks for node %d", rank)
		}
	}
}

// TestClosedBrokerLink: who reads a link learns that it is closed, though the other side has not closed it.
func TestClosedBrokerLink(t *testing.T) {
	a, b := net.Pipe()
	host, err := yamux.Client(a, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	guest, err := yamux.Server(b, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer guest.Close()
	stream, err := host.Open()
	if err != nil {
		t.Fatal(err)
	}
	l := &linkStream{Conn: stream}
	read := make(chan error, 1)
	go func() {
		_, err := io.ReadFull(l, make([]byte, 2))
		read <- err
	}()
	other, err := guest.Accept()
	if err == nil {
		_, err = other.Write([]byte{1})
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-read:
		if err == nil {
			t.Error("it is read")
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it is still read")
	}
}

// TestNoBrokerOfAGuest: a guest without the device has no broker, and none is made for a node that the run does not have.
func TestNoBrokerOfAGuest(t *testing.T) {
	a := newAgent(t, func(context.Context, int) error { return io.EOF })
	if _, err := rpc.Call(t.Context(), a.host, api.CallVerbs, rpc.None{}); !core.IsKind(err, core.NotFound) {
		t.Errorf("statistics: %v", err)
	}
	if _, _, err := rpc.Open(t.Context(), a.host, api.CallLink, api.BrokerRequest{Rank: 1}); !core.IsKind(err, core.NotFound) {
		t.Errorf("a connection: %v", err)
	}
	for _, rank := range []int{-1, 2} {
		if err := a.startBroker(brokerOptions(rank, 2), &driver.ContainerSpec{}); !core.IsKind(err, core.Invalid) {
			t.Errorf("as node %d of 2: %v", rank, err)
		}
	}
}
