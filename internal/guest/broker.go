package guest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/rdma/library"
	"github.com/bee-hpc/bee/internal/rpc"
)

// verbsBroker is the broker of bee_0 of this guest's container. Its connections with the brokers of other nodes pass
// through the host.
type verbsBroker struct {
	options driver.BrokerOptions
	port    *server.Port
	links   *server.Links // nil: the run has no other node
}

// The parts of the device in the agent's directory.
const (
	verbsFile   = "verbs.so"
	verbsSocket = "rdma.sock"
)

// newVerbsBroker makes the broker, whose parts are in a directory. ask asks the host once for a connection with the
// broker of another node.
func newVerbsBroker(dir string, o driver.BrokerOptions, ask func(ctx context.Context, rank int) error) (*verbsBroker, error) {
	if o.Rank < 0 || o.Rank >= len(o.Ports) {
		return nil, &core.Error{Kind: core.Invalid, Op: "make device", Object: "bee_0", Err: fmt.Errorf("node %d is none of %d", o.Rank, len(o.Ports)), Remedy: core.RemedyVersions}
	}
	verbs, err := writeVerbs(dir)
	if err != nil {
		return nil, err
	}
	b := &verbsBroker{options: o}
	s := server.New(verbs.Build, slog.New(slog.NewTextHandler(os.Stderr, nil)), nil)
	if len(o.Ports) > 1 {
		b.links = server.NewLinks(context.Background(), s, ask) // as long as the guest
		if err := s.Forward(b.machines()); err != nil {
			return nil, fmt.Errorf("connect bee_0 with other nodes: %w", err)
		}
	}
	b.port, err = s.Listen(filepath.Join(dir, verbsSocket), addressOf(o.Ports[o.Rank]), server.Limits(o.Memory, o.QPs))
	return b, err
}

// writeVerbs writes the library to the agent's directory.
func writeVerbs(dir string) (library.Library, error) {
	verbs, err := library.Get()
	if err != nil {
		return verbs, err
	}
	if err := os.WriteFile(filepath.Join(dir, verbsFile), verbs.File, 0o755); err != nil {
		return verbs, fmt.Errorf("write the library for verbs: %w", err)
	}
	return verbs, nil
}

// addressOf is that of a port.
func addressOf(p driver.BrokerPort) broker.Address {
	a := broker.Address{LID: p.LID, GID: p.GID}
	if p.IP.IsValid() {
		a.IPs = []netip.Addr{p.IP}
	}
	return a
}

// machines are the nodes of the run, each on a machine of its own.
func (b *verbsBroker) machines() server.Machines {
	lids, gids, ips := map[uint16]int{}, map[[16]byte]int{}, map[netip.Addr]int{}
	for rank, p := range b.options.Ports {
		lids[p.LID], gids[p.GID] = rank, rank
		if _, taken := ips[p.IP]; p.IP.IsValid() && rank != b.options.Rank && !taken {
			ips[p.IP] = rank
		}
	}
	return server.Machines{
		Own: []int{b.options.Rank}, Size: len(b.options.Ports),
		Address: func(rank int) broker.Address { return addressOf(b.options.Ports[rank]) },
		Rank: func(lid uint16, global bool, gid [16]byte) (rank int, is bool) {
			if global {
				rank, is = gids[gid]
			} else {
				rank, is = lids[lid]
			}
			return rank, is
		},
		Named: func(ip netip.Addr) (int, bool) {
			rank, is := ips[ip]
			return rank, is
		},
		Together: func(int, int) bool { return false },
		Want: func(rank int) {
			if rank != b.options.Rank {
				b.links.Want(rank)
			}
		},
	}
}

// addVerbs adds the device to the container.
func addVerbs(o driver.BrokerOptions, s *driver.ContainerSpec, dir string) {
	s.Mounts = append(s.Mounts,
		driver.Mount{Source: filepath.Join(dir, verbsFile), Target: o.Library, ReadOnly: true},
		driver.Mount{Source: filepath.Join(dir, verbsSocket), Target: o.Socket})
	s.Faults = true
	s.Devices = append(s.Devices, driver.Device{Source: os.DevNull, Target: o.Node})
}

// of returns the links with a node's broker, if there is such a node.
func (b *verbsBroker) of(rank int) (*server.Links, error) {
	if b.links == nil || rank < 0 || rank >= len(b.options.Ports) || rank == b.options.Rank {
		return nil, &core.Error{Kind: core.Invalid, Op: "link with the bee_0 of node", Object: fmt.Sprint(rank), Err: errors.New("the run has no such other node"), Remedy: core.RemedyVersions}
	}
	return b.links, nil
}

// startBroker makes the broker, or the way to that of the host, and adds the device to the container.
func (h *containerAgent) startBroker(o driver.BrokerOptions, s *driver.ContainerSpec) error {
	if o.Pool != nil {
		return h.startPrograms(o, s)
	}
	b, err := newVerbsBroker(h.home, o, h.ask)
	if err != nil {
		return err
	}
	addVerbs(o, s, h.home)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.verbs = b
	return nil
}

// ask asks the host for a connection with the broker of another node.
func (h *containerAgent) ask(ctx context.Context, rank int) error {
	h.mu.Lock()
	peer := h.peer
	h.mu.Unlock()
	_, err := rpc.Call(ctx, peer, api.CallAsk, api.BrokerRequest{Rank: rank})
	return err
}

// broker returns that of bee_0.
func (h *containerAgent) broker() (*verbsBroker, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.verbs == nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "use", Object: "bee_0", Err: errors.New("the guest runs no broker of such a device (yet)"), Remedy: core.RemedyAgain}
	}
	return h.verbs, nil
}

// link uses a connection with the broker of another node until it ends.
func (h *containerAgent) link(ctx context.Context, _ rpc.Caller, r api.BrokerRequest, to rpc.Answer[rpc.None]) error {
	b, err := h.broker()
	if err != nil {
		return err
	}
	links, err := b.of(r.Rank)
	if err != nil {
		return err
	}
	if err := to.Reply(rpc.None{}); err != nil {
		return err
	}
	return links.Serve(ctx, &linkStream{Conn: to.Stream}, r.Rank)
}

// linkStream is a stream that nobody reads once it is closed. Streams of a session may be read until the other side has
// closed them, too: a link that has fallen silent would never end.
type linkStream struct {
	net.Conn
	closed atomic.Bool
}

func (s *linkStream) Read(b []byte) (int, error) {
	if s.closed.Load() {
		return 0, net.ErrClosed
	}
	return s.Conn.Read(b)
}

func (s *linkStream) Close() error {
	s.closed.Store(true)
	return errors.Join(s.SetDeadline(time.Unix(1, 0)), s.Conn.Close())
}

// renew has the connection with the broker of another node be made again.
func (h *containerAgent) renew(_ context.Context, _ rpc.Caller, r api.BrokerRequest) (rpc.None, error) {
	b, err := h.broker()
	if err != nil {
		return rpc.None{}, err
	}
	links, err := b.of(r.Rank)
	if err != nil {
		return rpc.None{}, err
	}
	links.Renew(r.Rank)
	return rpc.None{}, nil
}

// statistics returns what the device has done.
func (h *containerAgent) statistics(context.Context, rpc.Caller, rpc.None) (core.VerbsPort, error) {
	b, err := h.broker()
	if err != nil {
		return core.VerbsPort{}, err
	}
	return b.port.Statistics().View(b.options.Rank), nil
}
