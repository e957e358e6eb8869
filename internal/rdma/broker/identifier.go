package broker

import (
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// Spaces of ports, as enum rdma_port_space has them.
const (
	SpaceTCP uint32 = 0x0106
	SpaceUDP uint32 = 0x0111
)

// idState is a state of an identifier.
type idState int

const (
	idIdle       idState = iota
	idBound              // to an address
	idResolved           // the address of its peer is known
	idRouted             // it may connect
	idListening          // requests come to it
	idCalling            // nobody listens for its request yet
	idConnecting         // its request is at the other side
	idRequested          // it is the other side of a request
	idResponded          // its request was accepted
	idAccepted           // it accepted, and the other side does not know yet
	idConnected          // as both ends know
	idClosed             // no connection comes of it any more
)

// identifier is one end of a connection by address, or listens for such.
type identifier struct {
	broker  *Broker
	session *Session // nil: its program is on another machine
	object  *object  // its one use is the event channel
	handle  uint32
	space   uint32
	state   idState
	local   address
	remote  address
	bound   bool // its port is taken
	// peer is the other end while both may come to be connected or are.
	peer *identifier
	// pending is how many of its events the process has not taken.
	pending int
	// backlog is how many requests may wait until the process takes them, and waiting how many do.
	backlog, waiting int
	// listener is that of a request that the process has not taken yet.
	listener *identifier
	// active: it has made the request.
	active bool
	// param are those of a request that nobody listens for.
	param message.CMParam
	// left: the connection has ended by its peer, and its own process may end it once more.
	left bool
	// far passes events on to its program, where that is on another machine.
	far FarCall
	// node is the one that it calls from there.
	node *Node
	// before is the number of a queue pair, whose messages come before the end.
	before uint32
}

// Connections are the connections by address of a process.
type Connections struct{ session *Session }

// Connections returns them.
func (s *Session) Connections() Connections { return Connections{s} }

// CreateIdentifier makes one, with the event channel of that handle.
func (s Connections) CreateIdentifier(channel, space uint32) (uint32, error) {
	if space != SpaceTCP && space != SpaceUDP {
		return 0, syscall.EOPNOTSUPP
	}
	o, err := s.session.find(channel, message.KindCMChannel)
	if err != nil {
		return 0, err
	}
	id, err := s.session.newIdentifier(o, space)
	if err != nil {
		return 0, err
	}
	return id.handle, nil
}

func (s *Session) newIdentifier(channel *object, space uint32) (*identifier, error) {
	n := s.node
	if n.ids >= n.Limits.IDs {
		return nil, &Limit{Name: "connection identifiers of a container", Value: int64(n.Limits.IDs)}
	}
	o := &object{kind: message.KindCMID, uses: []*object{channel}}
	id := &identifier{broker: n.broker, session: s, object: o, space: space}
	o.id = id
	n.ids++
	id.handle = s.add(o)
	return id, nil
}

func (id *identifier) channel() *eventChannel { return id.object.uses[0].channel }

// event reports one without parameters.
func (id *identifier) event(event uint32, status int32) {
	id.report(message.CMEvent{Event: event, Status: status})
}

// report reports an event to the program of an identifier, wherever that is.
func (id *identifier) report(e message.CMEvent) {
	if id.far != nil {
		id.far.Report(Step{Event: e.Event, Status: e.Status, Param: e.Param}, id.state == idClosed, id.before)
		return
	}
	id.channel().add(cmEvent{of: id, message: e})
}

// address is that of its port.
func (id *identifier) address() Address {
	if id.far != nil {
		return id.far.Address()
	}
	return id.session.node.Address
}

func (s *Session) identifier(handle uint32) (*identifier, error) {
	o, err := s.find(handle, message.KindCMID)
	if err != nil {
		return nil, err
	}
	return o.id, nil
}

// inState returns an identifier that is in one of some states.
func (s Connections) inState(handle uint32, states ...idState) (*identifier, error) {
	id, err := s.session.identifier(handle)
	if err != nil {
		return nil, err
	}
	for _, state := range states {
		if id.state == state {
			return id, nil
		}
	}
	return nil, syscall.EINVAL
}

// removeIdentifier destroys one. Its peer learns it, and requests to it that no process has
// taken are rejected.
func (s *Session) removeIdentifier(id *identifier) {
	id.leave()
	var requests []*identifier
	for _, e := range id.channel().events {
		if e.of == id && e.child != nil {
			requests = append(requests, e.child)
		}
	}
	for _, child := range requests {
		child.session.remove(child.handle)
	}
	id.taken()
	id.channel().remove(id)
	s.node.release(id)
	s.node.ids--
}

// taken notes that a request no longer waits for its listener's process.
func (id *identifier) taken() {
	if id.listener != nil {
		id.listener.waiting--
		id.listener = nil
	}
}
