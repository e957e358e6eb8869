package broker

import (
	"slices"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// EarlyTime is how long a request for a connection waits for a listener.
const EarlyTime = 2 * time.Second

// MostCalling is how many requests may wait for a listener, before those of other machines are refused.
const MostCalling = 1024

// Step is what an identifier reports to one of another machine: an event, as its program gets it.
type Step struct {
	Event  uint32
	Status int32
	Param  message.CMParam
	// Of a request: the space of its ports, the addresses of both sides, and the LIDs of their devices' ports.
	Space          uint32
	From, To       message.CMAddress
	FromLID, ToLID uint16
}

// FarCall is the way to an identifier of another machine.
type FarCall interface {
	// Address is that of its port.
	Address() Address
	// Report passes a step on, after the messages that a queue pair of this machine has sent if it
	// is the last one. A FarCall is not used after that.
	Report(s Step, last bool, before uint32)
}

// FarIdentifier stands for an identifier of another machine. Its peer is one of this machine.
type FarIdentifier struct{ id *identifier }

// findFar returns the address of the port of another broker that the destination of an identifier reaches, and whether
// requests go there now.
func (b *Broker) findFar(id *identifier) (a Address, ready, is bool) {
	if b.far == nil || id.far != nil || !id.remote.IsValid() || id.remote.Addr().IsMulticast() {
		return Address{}, false, false
	}
	return b.far.Find(id.space, id.remote.AddrPort)
}

// announce reports to other brokers that an identifier listens, or does so no more.
func (id *identifier) announce(on bool) {
	if far := id.broker.far; far != nil {
		far.Listen(Listener{LID: id.session.node.Address.LID, Space: id.space, At: id.local.AddrPort}, on)
	}
}

// callFar requests a connection by another broker; false: none takes requests for the address now.
func (id *identifier) callFar(p message.CMParam) (bool, error) {
	b := id.broker
	to, ready, _ := b.findFar(id)
	if !ready {
		return false, nil
	}
	other := &identifier{broker: b, space: id.space, state: idRequested, local: id.remote, remote: id.local, before: p.QP}
	call, err := b.far.Call(FarIdentifier{other}, to, Step{
		Event: ConnectRequest, Space: id.space, Param: seen(p), From: id.local.message(), To: id.remote.message(),
		FromLID: id.address().LID, ToLID: to.LID,
	})
	if err != nil {
		return false, err
	}
	other.far, other.peer = call, id
	id.state, id.peer = idConnecting, other
	return true, nil
}

// Called has a listener of this machine get the request of an identifier of another one. Where
// nobody listens yet, the request waits until the caller calls giveUp, which is nil otherwise. EINVAL: no broker
// sends such a request.
func (b *Broker) Called(s Step, call FarCall) (f FarIdentifier, giveUp func(), err error) {
	from, ferr := addressOf(s.From)
	to, terr := addressOf(s.To)
	id := &identifier{broker: b, space: s.Space, state: idRouted, active: true, local: from, remote: to, far: call}
	f = FarIdentifier{id}
	if ferr != nil || terr != nil || s.Event != ConnectRequest || s.Space != SpaceTCP && s.Space != SpaceUDP || !saneParam(&s.Param, id.limit(privateRequest, privateDatagramRequest)) {
		return f, nil, syscall.EINVAL
	}
	p := seen(s.Param) // as its own program has them
	id.node = b.find(s.ToLID, false, [16]byte{})
	if id.node == nil || !slices.Contains(id.node.Address.IPs, to.Addr()) { // loopback addresses are of no other machine
		id.refuse(reasonNoService, datagramUnsupported, message.CMParam{})
		return f, nil, nil
	}
	if listener := id.find(); listener != nil {
		listener.request(id, p)
		return f, nil, nil
	}
	if len(b.calling) >= MostCalling {
		id.refuse(reasonNoService, datagramUnsupported, message.CMParam{})
		return f, nil, nil
	}
	return f, id.wait(p), nil
}

// Refusal is the step that refuses a request for want of room.
func Refusal() Step { return Step{Event: Rejected, Status: reasonConsumer} }

// Loss is the step that ends a connection whose machines have lost each other.
func Loss() Step { return Step{Event: Rejected, Status: reasonTimeout} }

// QueuePair is the number of the queue pair of this machine that it connects; 0: that is not known.
func (f FarIdentifier) QueuePair() uint32 { return f.id.before }

// Requested reports whether it was asked for a connection, and has not answered.
func (f FarIdentifier) Requested() bool { return f.id.state == idRequested }

// Closed reports whether no step comes from or goes to it any more.
func (f FarIdentifier) Closed() bool { return f.id.state == idClosed }

// mostReason bounds the reasons of a rejection: a byte has them.
const mostReason = 255

// Take carries a step of it out, as if it was one of this machine. One that comes too late has no
// effect. EINVAL: no broker sends it.
func (f FarIdentifier) Take(s Step) error {
	id := f.id
	switch s.Event {
	case ConnectResponse, Established:
		if !saneParam(&s.Param, id.limit(privateAcceptance, privateDatagramResponse)) {
			return syscall.EINVAL
		}
		id.accepts(s)
	case Rejected, Unreachable:
		if !saneParam(&s.Param, id.limit(privateRejection, privateDatagramResponse)) || s.Status < 1 || s.Status > mostReason {
			return syscall.EINVAL
		}
		if id.state == idRequested || id.state == idAccepted || id.state == idResponded {
			id.part(idClosed).refuse(s.Status, s.Status, private(s.Param))
		} else {
			id.leave()
		}
	case Disconnected:
		id.leave()
	default:
		return syscall.EINVAL
	}
	return nil
}

// accepts has an identifier of another machine accept a request, or acknowledge an acceptance.
func (id *identifier) accepts(s Step) {
	peer, a := id.peer, id.address()
	e := message.CMEvent{Event: s.Event, LID: a.LID, GID: a.GID, Param: private(s.Param)}
	switch {
	case id.state == idRequested && id.datagram() && s.Event == Established:
		id.part(idClosed)
		peer.report(e)
	case id.state == idRequested && !id.datagram() && s.Event == ConnectResponse:
		id.state, peer.state = idAccepted, idResponded
		peer.report(e)
	case id.state == idResponded && s.Event == Established:
		id.state, peer.state = idConnected, idConnected
		peer.event(Established, 0)
	}
}

// Lost ends it, as there is no way to its machine.
func (f FarIdentifier) Lost() {
	id := f.id
	if id.state != idRequested {
		id.leave()
		return
	}
	peer := id.part(idClosed)
	peer.state = idClosed
	peer.event(Unreachable, -int32(syscall.ETIMEDOUT))
}
