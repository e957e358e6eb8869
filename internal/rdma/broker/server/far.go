package server

import (
	"context"
	"net"
	"net/netip"
	"os"
	"sync/atomic"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/forward"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// Machines are those of a run, by the ranks of their nodes.
type Machines struct {
	// Own are the nodes of this machine.
	Own []int
	// Size is how many nodes the run has.
	Size int
	// Address returns that of a node's port, and Rank the node with an address; false: none has it.
	Address func(rank int) broker.Address
	Rank    func(lid uint16, global bool, gid [16]byte) (int, bool)
	// Named returns the node that programs reach by an IP address; false: none.
	Named func(ip netip.Addr) (int, bool)
	// Together reports whether nodes that are known run on one machine.
	Together func(a, b int) bool
	// Want asks for a connection with the broker of a node, by Serve. It returns at once.
	Want func(rank int)
}

// Forward connects queue pairs with those of other machines, too.
func (s *Server) Forward(m Machines) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.number++
	p, err := newPeer(s.number, s.memory)
	if err != nil {
		return err
	}
	s.peer = p
	s.far = forward.New(forward.Options{
		Host: host{s}, Peer: p, Build: s.build, Ranks: m.Own, Size: m.Size, Address: m.Address, Rank: m.Rank, Named: m.Named, Together: m.Together, Want: m.Want,
		Warn: func(text string, err error) { s.warnings.add(s.log, text, err) },
	})
	s.broker.SetFar(s.far)
	return nil
}

// Serve connects queue pairs by a connection with the broker of another machine, which the node of a
// rank runs, until it ends.
func (s *Server) Serve(ctx context.Context, c net.Conn, rank int) error {
	return s.far.Serve(ctx, c, rank)
}

// Linked reports whether there is a connection with the broker of a node.
func (s *Server) Linked(rank int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.far.Linked(rank)
}

// Doubt ends the connection with the broker of a node, which claims to have none.
func (s *Server) Doubt(rank int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.far.Doubt(rank)
}

// Close ends the links with other machines and runs. Ports end by their own Close.
func (s *Server) Close() error {
	err := s.leaveDomain()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.far != nil {
		s.far.End()
		s.peer.end()
	}
	return err
}

// host is the server as package forward has it.
type host struct{ *Server }

// Lock implements forward.Host.
func (h host) Lock() { h.mu.Lock() }

// Unlock implements forward.Host.
func (h host) Unlock() { h.mu.Unlock() }

// NewSegment implements forward.Host.
func (h host) NewSegment(bytes int64) (broker.Segment, error) { return h.memory.New(bytes) }

// Memory implements forward.Host.
func (host) Memory(s broker.Segment) ([]byte, error) { return s.(*segment).mapped() }

// Wake implements forward.Host.
func (host) Wake(p broker.Process) {
	if p, is := p.(*process); is && !p.asleep() {
		return
	}
	p.Wake()
}

// Receiver implements forward.Host.
func (h host) Receiver(lid uint16, number uint32) (broker.Inbox, error) {
	return h.broker.Receiver(lid, number)
}

// Called implements forward.Host.
func (h host) Called(s broker.Step, c broker.FarCall) (broker.FarIdentifier, func(), error) {
	return h.broker.Called(s, c)
}

// peer is the process that stands for those of other machines.
type peer struct {
	*process
	number uint32
	woken  *os.File // readable after others have woken it
}

func newPeer(number uint32, m memory) (*peer, error) {
	p, own, err := newProcess(m)
	if err != nil {
		return nil, err
	}
	err = unix.SetNonblock(own[1], true)
	unix.Close(own[0]) // nobody reads its events
	if err != nil {
		unix.Close(own[1])
		p.close()
		return nil, err
	}
	return &peer{process: p, number: number, woken: os.NewFile(uintptr(own[1]), "bee-rdma-peer")}, nil
}

// end ends Await. What programs have of the peer stays until they end, and so does the broker's.
func (p *peer) end() { p.woken.Close() }

// Number implements forward.Peer.
func (p *peer) Number() uint32 { return p.number }

// Sleep implements forward.Peer.
func (p *peer) Sleep(on bool) {
	delta := uint32(1)
	if !on {
		delta = ^uint32(0)
	}
	atomic.AddUint32(p.page.word(message.PageSleeping), delta)
}

// Await implements forward.Peer.
func (p *peer) Await() error {
	_, err := p.woken.Read(make([]byte, 256))
	return err
}
