package broker

import (
	"net/netip"
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// address is one of a connection; not valid: none.
type address struct {
	netip.AddrPort
	own bool // the program says that it is one of its container
}

// addressOf reads one.
func addressOf(m message.CMAddress) (address, error) {
	a := address{own: m.Own != 0}
	switch m.Family {
	case 0:
	case 4:
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom4([4]byte(m.IP[:4])), m.Port)
	case 6:
		a.AddrPort = netip.AddrPortFrom(netip.AddrFrom16(m.IP).Unmap(), m.Port)
	default:
		return a, syscall.EINVAL
	}
	return a, nil
}

// message is how the protocol has an address.
func (a address) message() (m message.CMAddress) {
	m.Port = a.Port()
	switch ip := a.Addr(); {
	case ip.Is4():
		raw := ip.As4()
		m.Family = 4
		copy(m.IP[:], raw[:])
	case ip.Is6():
		m.Family, m.IP = 6, ip.As16()
	}
	return m
}

func (a address) withPort(port uint16) address {
	a.AddrPort = netip.AddrPortFrom(a.Addr(), port)
	return a
}

// has reports whether an address is one of a node: as its program says, or as the run knows.
func (n *Node) has(a address) bool { return a.own || slices.Contains(n.Address.IPs, a.Addr()) }

// reach returns the nodes that a program of this node reaches by an address: its own first.
func (n *Node) reach(a address) []*Node {
	var nodes []*Node
	if n.has(a) {
		nodes = append(nodes, n)
	}
	for _, other := range n.broker.nodes {
		if other != n && slices.Contains(other.Address.IPs, a.Addr()) {
			nodes = append(nodes, other)
		}
	}
	return nodes
}

// portName names a port of a node.
type portName struct {
	space uint32
	port  uint16
}

// Ports that a broker chooses.
const (
	firstPort = 32768
	lastPort  = 60999
)

// bind gives an identifier an address, and a port of its own where that has none.
func (n *Node) bind(id *identifier, a address) error {
	if a.Port() == 0 {
		for range lastPort - firstPort + 1 {
			if n.lastPort++; n.lastPort < firstPort || n.lastPort > lastPort {
				n.lastPort = firstPort
			}
			if len(n.ports[portName{id.space, n.lastPort}]) == 0 {
				a = a.withPort(n.lastPort)
				break
			}
		}
		if a.Port() == 0 {
			return syscall.EADDRNOTAVAIL
		}
	}
	name := portName{id.space, a.Port()}
	for _, other := range n.ports[name] {
		if conflict(other.local.Addr(), a.Addr()) {
			return syscall.EADDRINUSE
		}
	}
	id.local, id.bound = a, true
	n.ports[name] = append(n.ports[name], id)
	return nil
}

// conflict reports whether two identifiers cannot have one port with these addresses.
func conflict(a, b netip.Addr) bool {
	return a == b || a.Is4() == b.Is4() && (a.IsUnspecified() || b.IsUnspecified())
}

// release gives the port of an identifier back.
func (n *Node) release(id *identifier) {
	if !id.bound {
		return
	}
	name := portName{id.space, id.local.Port()}
	id.bound = false
	if id.state == idListening {
		id.announce(false)
	}
	if n.ports[name] = slices.DeleteFunc(n.ports[name], func(other *identifier) bool { return other == id }); len(n.ports[name]) == 0 {
		delete(n.ports, name)
	}
}

// listener returns the identifier that gets requests to an address of this node; nil: none.
func (n *Node) listener(space uint32, a address) (found *identifier) {
	best := 0
	for _, id := range n.ports[portName{space, a.Port()}] {
		if id.state != idListening {
			continue
		}
		match, own := 0, id.local.Addr()
		switch {
		case own == a.Addr():
			match = 3
		case own.IsUnspecified() && own.Is4() == a.Addr().Is4():
			match = 2
		case own.IsUnspecified() && own.Is6():
			match = 1
		}
		if match > best {
			found, best = id, match
		}
	}
	return found
}
