package broker

import (
	"slices"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// address is one that programs may use: of one of the nodes, of none, or any.
func (h *history) address() message.CMAddress {
	r := h.r
	a := message.CMAddress{Family: 4, Port: uint16(r.IntN(4)), Own: uint32(r.IntN(2)), IP: [16]byte{10, 0, 0, byte(1 + r.IntN(3))}}
	if r.IntN(3) == 0 {
		a.IP = [16]byte{}
	}
	if r.IntN(10) == 0 {
		a.Family = uint16(r.IntN(8))
	}
	return a
}

// param is one that a port may have, mostly.
func (h *history) param() message.CMParam {
	return message.CMParam{QP: 17, PrivateBytes: uint8(h.r.IntN(60)), InitiatorDepth: uint8(h.r.IntN(18)), ResponderResources: uint8(h.r.IntN(17))}
}

// identifier plays a request about one: mostly the one that comes next in its state.
func (h *history) identifier(s *Session) {
	r := h.r
	handle := h.handle(s, message.KindCMID)
	next := map[idState]int{idIdle: 2 + r.IntN(3), idBound: 3 + r.IntN(2), idResolved: 5, idRouted: 6, idRequested: 7 + r.IntN(2), idResponded: 7 + r.IntN(2), idConnected: 9}
	op := r.IntN(14)
	if o := s.objects[handle]; o != nil && o.id != nil && r.IntN(3) > 0 {
		if want, is := next[o.id.state]; is {
			op = want
		}
	}
	var err error
	c := s.Connections()
	switch op {
	case 0:
		_, err = c.CreateEventChannel()
	case 1:
		_, err = c.CreateIdentifier(h.handle(s, message.KindCMChannel), SpaceTCP+11*r.Uint32N(3))
	case 2:
		_, err = c.Bind(&message.CMBind{Handle: handle, Address: h.address()})
	case 3:
		_, err = c.Listen(handle, r.Uint32N(3))
	case 4:
		_, err = c.ResolveAddress(&message.CMResolve{Handle: handle, Source: h.address(), Destination: h.address()})
	case 5:
		err = c.ResolveRoute(handle)
	case 6:
		var giveUp func()
		if giveUp, err = c.RequestConnection(&message.CMAnswer{Handle: handle, Param: h.param()}); giveUp != nil {
			h.giveUps = append(h.giveUps, giveUp)
		}
	case 7:
		err = c.AcceptConnection(&message.CMAnswer{Handle: handle, Param: h.param()})
	case 8:
		err = c.RejectConnection(&message.CMAnswer{Handle: handle, Reason: reasonConsumer, Param: h.param()})
	case 9:
		err = c.Disconnect(handle)
	case 10:
		err = c.Migrate(handle, h.handle(s, message.KindCMChannel))
	case 11:
		_, err = c.NextEvent(h.handle(s, message.KindCMChannel))
	case 12:
		if giveUp := pick(r, h.giveUps); giveUp != nil {
			giveUp() // also of a session that has ended
		}
	case 13:
		err = c.JoinMulticast(handle, r.Uint32())
	}
	h.expect(err)
}

// dial has a process request a connection to another, which listens already, or only then.
func (h *history) dial(from, to *Session) {
	r, port := h.r, uint16(1+h.r.IntN(3))
	channel := func(s *Session) uint32 {
		handle := h.handle(s, message.KindCMChannel)
		if o := s.objects[handle]; o == nil || o.channel == nil {
			var err error
			handle, err = s.Connections().CreateEventChannel()
			h.expect(err)
		}
		return handle
	}
	space := SpaceTCP
	if r.IntN(4) == 0 {
		space = SpaceUDP
	}
	listen := func() {
		c := to.Connections()
		id, err := c.CreateIdentifier(channel(to), space)
		h.expect(err)
		_, err = c.Bind(&message.CMBind{Handle: id, Address: message.CMAddress{Family: 4, Port: port}})
		h.expect(err)
		_, err = c.Listen(id, r.Uint32N(3))
		h.expect(err)
	}
	early := r.IntN(3) == 0
	if !early {
		listen()
	}
	c := from.Connections()
	id, err := c.CreateIdentifier(channel(from), space)
	h.expect(err)
	ip := to.node.Address.IPs[0].As4()
	a := message.CMAddress{Family: 4, Port: port}
	copy(a.IP[:], ip[:])
	_, err = c.ResolveAddress(&message.CMResolve{Handle: id, Destination: a})
	h.expect(err)
	h.expect(c.ResolveRoute(id))
	giveUp, err := c.RequestConnection(&message.CMAnswer{Handle: id, Param: h.param()})
	if h.expect(err); giveUp != nil {
		h.giveUps = append(h.giveUps, giveUp)
	}
	if early {
		listen()
	}
}

// partner are the states that the other end of a connection may have.
var partner = map[idState]idState{
	idConnecting: idRequested, idRequested: idConnecting, idResponded: idAccepted, idAccepted: idResponded, idConnected: idConnected,
}

// checkIdentifiers finds broken rules of connections by address.
func (h *history) checkIdentifiers() {
	t := h.t
	ids, channels, bound, calling := map[*Node]int{}, map[*Node]int{}, map[*Node]int{}, 0
	for _, s := range h.sessions {
		open := 0
		for handle, o := range s.objects {
			if c := o.channel; c != nil {
				open++
				if len(c.events) > 0 && !c.notified {
					t.Errorf("nobody is notified of %d events", len(c.events))
				}
				for _, e := range c.events {
					if e.of.channel() != c || e.of.session.objects[e.of.handle] != e.of.object || e.child != nil && e.child.session != s {
						t.Errorf("a channel has an event of another one, or of none that is there: %+v", e)
					}
				}
			}
			id := o.id
			if id == nil {
				continue
			}
			ids[s.node]++
			pending, waiting := 0, 0
			for _, e := range id.channel().events {
				if e.of == id {
					pending++
					if e.child != nil && e.child.listener == id {
						waiting++
					}
				}
			}
			if id.handle != handle || id.pending != pending || id.waiting != waiting || id.waiting > id.backlog {
				t.Errorf("%+v has %d events, of which %d are requests", id, pending, waiting)
			}
			if id.bound {
				bound[s.node]++
				if !slices.Contains(s.node.ports[portName{id.space, id.local.Port()}], id) {
					t.Errorf("the port of %+v is not its", id)
				}
			}
			if id.state == idCalling {
				calling++
				if id.find() != nil || !slices.Contains(h.broker.calling, id) {
					t.Errorf("%+v waits for nobody", id)
				}
			}
			want, has := partner[id.state]
			if has != (id.peer != nil) || has && (id.peer.peer != id || id.peer.state != want || id.peer.active == id.active || id.peer.space != id.space) {
				t.Errorf("%+v has the peer %+v", id, id.peer)
			}
		}
		if process := s.process.(*fakeProcess); len(process.channels) != open {
			t.Errorf("a process has %d sockets for %d channels", len(process.channels), open)
		}
		channels[s.node] += open
	}
	if n := len(h.broker.calling); n != calling {
		t.Errorf("%d requests of %d wait for a listener", n, calling)
	}
	for _, n := range h.nodes {
		taken := 0
		for name, list := range n.ports {
			taken += len(list)
			if len(list) == 0 {
				t.Errorf("port %+v has no identifier", name)
			}
		}
		if n.ids != ids[n] || n.channels != channels[n] || taken != bound[n] || n.ids > n.Limits.IDs || n.channels > n.Limits.IDs {
			t.Errorf("a node counts %d identifiers of %d, %d channels of %d, %d ports of %d", n.ids, ids[n], n.channels, channels[n], taken, bound[n])
		}
	}
}
