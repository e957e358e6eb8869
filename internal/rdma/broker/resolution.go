package broker

import (
	"net/netip"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// maxBacklog is how many requests may wait at a listener, as the kernel has it.
const maxBacklog = 1024

// Bind gives an identifier an address of its node.
func (s Connections) Bind(m *message.CMBind) (message.CMAddress, error) {
	id, err := s.inState(m.Handle, idIdle)
	if err != nil {
		return message.CMAddress{}, err
	}
	a, err := addressOf(m.Address)
	if err == nil && !a.IsValid() {
		err = syscall.EINVAL
	}
	if err == nil && !a.Addr().IsUnspecified() && !s.session.node.has(a) {
		err = syscall.EADDRNOTAVAIL
	}
	if err == nil {
		err = s.session.node.bind(id, a)
	}
	if err != nil {
		return message.CMAddress{}, err
	}
	id.state = idBound
	return id.local.message(), nil
}

// Listen has an identifier get requests.
func (s Connections) Listen(handle, backlog uint32) (message.CMAddress, error) {
	id, err := s.inState(handle, idIdle, idBound)
	if err != nil {
		return message.CMAddress{}, err
	}
	if !id.bound {
		if err := s.session.node.bind(id, address{AddrPort: netip.AddrPortFrom(netip.IPv4Unspecified(), 0)}); err != nil {
			return message.CMAddress{}, err
		}
	}
	if id.backlog = int(backlog); backlog == 0 || backlog > maxBacklog {
		id.backlog = maxBacklog
	}
	id.state = idListening
	id.announce(true)
	s.session.node.broker.Answer()
	return id.local.message(), nil
}

// ResolveAddress finds the node of a destination.
func (s Connections) ResolveAddress(m *message.CMResolve) (message.CMResolveReply, error) {
	id, err := s.inState(m.Handle, idIdle, idBound)
	if err != nil {
		return message.CMResolveReply{}, err
	}
	source, err := addressOf(m.Source)
	if err != nil {
		return message.CMResolveReply{}, err
	}
	destination, err := addressOf(m.Destination)
	if err == nil && (!destination.IsValid() || id.pending > 0) { // one search at a time
		err = syscall.EINVAL
	}
	if err == nil {
		err = id.from(source)
	}
	if err != nil {
		return message.CMResolveReply{}, err
	}
	id.remote = destination
	reply := message.CMResolveReply{Local: id.local.message()}
	nodes := s.session.node.reach(destination)
	if destination.Addr().IsMulticast() {
		nodes = []*Node{s.session.node}
	}
	a, ready, is := s.session.node.broker.findFar(id)
	if len(nodes) > 0 && (!ready || id.find() != nil) {
		a, is = nodes[0].Address, true
	}
	if !is {
		id.state = idBound
		id.event(AddressError, -int32(syscall.EHOSTUNREACH))
		return reply, nil
	}
	id.state = idResolved
	id.event(AddressResolved, 0)
	reply.LID, reply.GID = a.LID, a.GID
	return reply, nil
}

// from gives an identifier the address that its requests come from.
func (id *identifier) from(source address) error {
	if source.IsValid() && !source.Addr().IsUnspecified() && !id.session.node.has(source) {
		return syscall.EADDRNOTAVAIL
	}
	if !id.bound {
		if !source.IsValid() {
			source.AddrPort = netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
		}
		return id.session.node.bind(id, source)
	}
	if id.local.Addr().IsUnspecified() && source.IsValid() {
		id.local = source.withPort(id.local.Port())
	}
	return nil
}

// ResolveRoute ends the search for a way, of which there is one.
func (s Connections) ResolveRoute(handle uint32) error {
	id, err := s.inState(handle, idResolved)
	if err != nil {
		return err
	}
	id.state = idRouted
	id.event(RouteResolved, 0)
	return nil
}

// JoinMulticast adds the event after which the library joins a group, by its number for that.
func (s Connections) JoinMulticast(handle, number uint32) error {
	id, err := s.inState(handle, idBound, idResolved, idRouted, idClosed)
	switch {
	case err != nil:
		return err
	case !id.datagram():
		return syscall.EINVAL
	case id.pending >= maxGroups:
		return &Limit{Name: "multicast groups of a queue pair", Value: maxGroups}
	}
	id.channel().add(cmEvent{of: id, message: message.CMEvent{Event: MulticastJoin, Child: number}})
	return nil
}
