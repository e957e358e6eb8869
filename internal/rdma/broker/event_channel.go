package broker

import (
	"slices"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// EventChannel is the socket on which a process waits for events of connections.
type EventChannel interface {
	// Notify makes it readable. It never waits.
	Notify()
	Close()
}

// Events of connections, as enum rdma_cm_event_type has them.
const (
	AddressResolved uint32 = 0
	AddressError    uint32 = 1
	RouteResolved   uint32 = 2
	ConnectRequest  uint32 = 4
	ConnectResponse uint32 = 5
	Unreachable     uint32 = 7
	Rejected        uint32 = 8
	Established     uint32 = 9
	Disconnected    uint32 = 10
	MulticastJoin   uint32 = 12
)

// eventChannel has events until their process takes them. Its socket is notified of one at
// a time, so that it is never full.
type eventChannel struct {
	socket   EventChannel
	events   []cmEvent
	notified bool
}

// cmEvent is an event of an identifier. A request has made another one, the child.
type cmEvent struct {
	of, child *identifier
	message   message.CMEvent
}

func (c *eventChannel) add(e cmEvent) {
	e.message.Handle = e.of.handle
	if e.child != nil {
		e.message.Child = e.child.handle
	}
	e.of.pending++
	c.events = append(c.events, e)
	c.notify()
}

func (c *eventChannel) notify() {
	if len(c.events) > 0 && !c.notified {
		c.notified = true
		c.socket.Notify()
	}
}

// remove drops the events of an identifier, and the one that names it as a child.
func (c *eventChannel) remove(id *identifier) {
	c.events = slices.DeleteFunc(c.events, func(e cmEvent) bool {
		if e.of != id && e.child != id {
			return false
		}
		e.of.pending--
		return true
	})
}

// CreateEventChannel makes one.
func (s Connections) CreateEventChannel() (handle uint32, err error) {
	n := s.session.node
	if n.channels >= n.Limits.IDs {
		return 0, &Limit{Name: "event channels of a container", Value: int64(n.Limits.IDs)}
	}
	socket, err := s.session.process.EventChannel()
	if err != nil {
		return 0, err
	}
	n.channels++
	return s.session.add(&object{kind: message.KindCMChannel, channel: &eventChannel{socket: socket}}), nil
}

func (s *Session) removeEventChannel(c *eventChannel) {
	s.node.channels--
	c.socket.Close()
}

// NextEvent takes the oldest event of a channel. EAGAIN: there is none.
func (s Connections) NextEvent(handle uint32) (message.CMEvent, error) {
	o, err := s.session.find(handle, message.KindCMChannel)
	if err != nil {
		return message.CMEvent{}, err
	}
	c := o.channel
	c.notified = false
	if len(c.events) == 0 {
		return message.CMEvent{}, syscall.EAGAIN
	}
	e := c.events[0]
	c.events[0], c.events = cmEvent{}, c.events[1:]
	e.of.pending--
	if e.child != nil {
		e.child.taken()
	}
	c.notify()
	return e.message, nil
}

// Migrate moves an identifier and its events to another channel.
func (s Connections) Migrate(handle, to uint32) error {
	id, err := s.session.identifier(handle)
	if err == nil && id.listener != nil { // the event that names it comes first
		err = syscall.EINVAL
	}
	if err != nil {
		return err
	}
	target, err := s.session.find(to, message.KindCMChannel)
	if err != nil {
		return err
	}
	from := id.channel()
	var moved []cmEvent
	from.events = slices.DeleteFunc(from.events, func(e cmEvent) bool {
		if e.of != id && e.of.listener != id { // of requests that have not been taken
			return false
		}
		e.of.pending--
		moved = append(moved, e)
		return true
	})
	id.use(target)
	for _, e := range moved {
		if e.child != nil {
			e.child.use(target)
		}
		target.channel.add(e)
	}
	return nil
}

// use changes the channel of an identifier.
func (id *identifier) use(channel *object) {
	id.object.uses[0].users--
	id.object.uses[0] = channel
	channel.users++
}
