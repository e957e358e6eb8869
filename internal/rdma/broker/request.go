package broker

import (
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Reasons of a rejection, as InfiniBand numbers them.
const (
	reasonTimeout   = 4
	reasonNoService = 8
	reasonConsumer  = 28
	reasonVendor    = 35
	// The same for datagrams.
	datagramUnsupported = 1
	datagramRejected    = 2
)

// Most bytes of private data, as InfiniBand has room for.
const (
	privateRequest          = 56
	privateAcceptance       = 196
	privateRejection        = 148
	privateDatagramRequest  = 180
	privateDatagramResponse = 136
)

// saneParam reports whether parameters are within what a port has, with so many bytes of
// private data at most.
func saneParam(p *message.CMParam, most int) bool {
	return int(p.PrivateBytes) <= most && p.Retries <= 7 && p.RNRRetries <= 7 && p.ResponderResources <= MaxRDAtomic && p.InitiatorDepth <= MaxRDAtomic && p.QP <= 0xffffff
}

// seen is how the other side sees parameters: what one side starts, the other answers.
func seen(p message.CMParam) message.CMParam {
	p.ResponderResources, p.InitiatorDepth = p.InitiatorDepth, p.ResponderResources
	return private(p)
}

// private is what a side has sent besides numbers, and nothing behind it.
func private(p message.CMParam) message.CMParam {
	clear(p.Private[p.PrivateBytes:])
	p.Pad = 0
	return p
}

// limit is how much private data one may send.
func (id *identifier) limit(connection, datagram int) int {
	if id.datagram() {
		return datagram
	}
	return connection
}

// datagram reports whether an identifier is one of datagrams, which have no connection.
func (id *identifier) datagram() bool { return id.space == SpaceUDP }

// RequestConnection requests a connection, or the address of a datagram queue pair. Where
// nobody listens yet, the request waits until the caller calls giveUp, which is nil otherwise:
// programs that start at once would depend on chance, as nothing here takes as long as
// a network does.
func (s Connections) RequestConnection(m *message.CMAnswer) (giveUp func(), err error) {
	id, err := s.inState(m.Handle, idRouted)
	if err != nil {
		return nil, err
	}
	if !saneParam(&m.Param, id.limit(privateRequest, privateDatagramRequest)) {
		return nil, syscall.EINVAL
	}
	id.active = true
	if listener := id.find(); listener != nil {
		listener.request(id, m.Param)
		return nil, nil
	}
	if is, err := id.callFar(m.Param); is || err != nil {
		return nil, err
	}
	return id.wait(m.Param), nil
}

// wait has a request wait for a listener, until the caller gives it up.
func (id *identifier) wait(p message.CMParam) (giveUp func()) {
	id.state, id.param = idCalling, p
	id.broker.calling = append(id.broker.calling, id)
	return func() {
		if id.state == idCalling {
			id.hangUp()
			id.refuse(reasonNoService, datagramUnsupported, message.CMParam{})
		}
	}
}

// hangUp ends the wait for a process that listens.
func (id *identifier) hangUp() {
	b := id.broker
	id.state = idClosed
	b.calling = slices.DeleteFunc(b.calling, func(other *identifier) bool { return other == id })
}

// Answer requests the connections that have waited for a listener, where there is one now.
func (b *Broker) Answer() {
	for _, id := range slices.Clone(b.calling) {
		if listener := id.find(); listener != nil {
			id.hangUp()
			listener.request(id, id.param)
			continue
		}
		if _, ready, _ := b.findFar(id); ready {
			id.hangUp()
			if is, err := id.callFar(id.param); !is || err != nil {
				id.refuse(reasonNoService, datagramUnsupported, message.CMParam{})
			}
		}
	}
}

// find returns who listens at the destination of an identifier; nil: nobody does.
func (id *identifier) find() *identifier {
	nodes := []*Node{id.node}
	if id.far == nil {
		nodes = id.session.node.reach(id.remote)
	}
	for _, n := range nodes {
		if l := n.listener(id.space, id.remote); l != nil {
			return l
		}
	}
	return nil
}

// request makes the other end of a connection, for the process that listens. Beyond its
// limits the request is rejected: they are none of the process that requests.
func (id *identifier) request(from *identifier, p message.CMParam) {
	child, err := id.child()
	if err != nil {
		from.refuse(reasonConsumer, datagramRejected, message.CMParam{})
		return
	}
	child.peer, child.local, child.remote = from, from.remote, from.local
	from.state, from.peer = idConnecting, child
	a := from.address()
	id.channel().add(cmEvent{of: id, child: child, message: message.CMEvent{
		Event: ConnectRequest, LID: a.LID, GID: a.GID, Local: child.local.message(), Remote: child.remote.message(), Param: seen(p),
	}})
}

// child makes an identifier for a request.
func (id *identifier) child() (*identifier, error) {
	if id.waiting >= id.backlog {
		return nil, syscall.ECONNREFUSED
	}
	child, err := id.session.newIdentifier(id.object.uses[0], id.space)
	if err != nil {
		return nil, err
	}
	child.state, child.listener = idRequested, id
	id.waiting++
	return child, nil
}

// AcceptConnection accepts a request, or acknowledges that it was accepted.
func (s Connections) AcceptConnection(m *message.CMAnswer) error {
	id, err := s.inState(m.Handle, idRequested, idResponded, idClosed)
	switch {
	case err != nil:
		return err
	case id.state == idClosed && id.active: // its peer has left since, and an event says so
		return nil
	case id.state == idClosed:
		return syscall.ENOTCONN
	case id.state == idResponded:
		id.state, id.peer.state = idConnected, idConnected
		id.peer.event(Established, 0)
		return nil
	case !saneParam(&m.Param, id.limit(privateAcceptance, privateDatagramResponse)):
		return syscall.EINVAL
	}
	a, peer := id.address(), id.peer
	e := message.CMEvent{Event: ConnectResponse, LID: a.LID, GID: a.GID, Param: seen(m.Param)}
	id.state, peer.state, peer.before = idAccepted, idResponded, m.Param.QP
	if id.datagram() {
		e.Event = Established
		id.part(idClosed)
	}
	peer.report(e)
	return nil
}

// RejectConnection rejects a request, or an acceptance that its process cannot use.
func (s Connections) RejectConnection(m *message.CMAnswer) error {
	id, err := s.inState(m.Handle, idRequested, idResponded, idAccepted)
	switch {
	case err != nil:
		return err
	case m.Reason != reasonConsumer && m.Reason != reasonVendor, !saneParam(&m.Param, id.limit(privateRejection, privateDatagramResponse)):
		return syscall.EINVAL
	}
	peer := id.part(idClosed)
	peer.refuse(int32(m.Reason), datagramRejected, private(m.Param))
	return nil
}

// refuse ends a request with an event for its process.
func (id *identifier) refuse(reason, datagram int32, p message.CMParam) {
	id.state = idClosed
	e := message.CMEvent{Event: Rejected, Status: reason, Param: p}
	if id.datagram() {
		e.Event, e.Status = Unreachable, datagram
	}
	id.report(e)
}

// part ends what two identifiers have to do with each other, and returns the other one.
func (id *identifier) part(to idState) (peer *identifier) {
	peer = id.peer
	id.state, peer.state = to, to
	id.peer, peer.peer = nil, nil
	return peer
}

// Disconnect ends a connection, with an event at both ends. The other end may do the same
// once, afterwards.
func (s Connections) Disconnect(handle uint32) error {
	id, err := s.inState(handle, idResponded, idAccepted, idConnected, idClosed)
	switch {
	case err != nil:
		return err
	case id.state == idClosed && !id.left:
		return syscall.EINVAL
	case id.state == idClosed:
		id.left = false
		return nil
	}
	peer := id.part(idClosed)
	peer.left = true
	id.event(Disconnected, 0)
	peer.event(Disconnected, 0)
	return nil
}

// leave ends what an identifier has to do with another, as its process or itself ends.
func (id *identifier) leave() {
	switch id.state {
	case idCalling:
		id.hangUp()
	case idConnecting:
		if child := id.part(idClosed); child.listener != nil {
			child.session.remove(child.handle)
		} else {
			child.refuse(reasonTimeout, datagramRejected, message.CMParam{})
		}
	case idRequested:
		id.part(idClosed).refuse(reasonConsumer, datagramRejected, message.CMParam{})
	case idResponded, idAccepted, idConnected:
		peer := id.part(idClosed)
		peer.left = true
		peer.event(Disconnected, 0)
	}
}
