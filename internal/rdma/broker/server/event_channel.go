package server

import (
	"fmt"
	"syscall"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"golang.org/x/sys/unix"
)

// eventChannel is the broker's end of a socket, of which the process has the other.
type eventChannel struct{ fd int }

// EventChannel makes one. The process's end is passed with the reply.
func (p *process) EventChannel() (broker.EventChannel, error) {
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket for events of connections: %w", err)
	}
	p.passed = append(p.passed, ends[1])
	return eventChannel{ends[0]}, nil
}

// Notify sends one byte. There is room, as the broker waits until that is read, or its reader
// has chosen otherwise.
func (c eventChannel) Notify() {
	err := unix.Sendto(c.fd, []byte{0}, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, nil)
	_ = err
}

func (c eventChannel) Close() { unix.Close(c.fd) }

// closePassed closes what a reply has passed to the process.
func (p *process) closePassed() {
	for _, fd := range p.passed {
		unix.Close(fd)
	}
	for _, s := range p.lent {
		s.Close()
	}
	p.passed, p.lent = nil, nil
}

// call carries out a request about an identifier or event channel.
func (p *process) call(op message.Op, m *message.CMCall) ([]handed, []any, error) {
	s := p.session.Connections()
	switch op {
	case message.OpCMChannel:
		handle, err := s.CreateEventChannel()
		return alone(p.passed...), []any{message.Created{Handle: handle}}, err
	case message.OpCMID:
		handle, err := s.CreateIdentifier(m.Handle, m.Value)
		return nil, []any{message.Created{Handle: handle}}, err
	case message.OpCMListen:
		local, err := s.Listen(m.Handle, m.Value)
		return nil, []any{message.CMBindReply{Local: local}}, err
	case message.OpCMRoute:
		return nil, nil, s.ResolveRoute(m.Handle)
	case message.OpCMDisconnect:
		return nil, nil, s.Disconnect(m.Handle)
	case message.OpCMMigrate:
		return nil, nil, s.Migrate(m.Handle, m.Value)
	case message.OpCMJoin:
		return nil, nil, s.JoinMulticast(m.Handle, m.Value)
	case message.OpCMEvent:
		e, err := s.NextEvent(m.Handle)
		return nil, []any{e}, err
	}
	return nil, nil, syscall.EINVAL
}

// answer carries out a request that has the parameters of a connection.
func (p *process) answer(op message.Op, m *message.CMAnswer) error {
	s := p.session.Connections()
	switch op {
	case message.OpCMConnect:
		giveUp, err := s.RequestConnection(m)
		if giveUp != nil {
			p.later(giveUp)
		}
		return err
	case message.OpCMAccept:
		return s.AcceptConnection(m)
	case message.OpCMReject:
		return s.RejectConnection(m)
	}
	return syscall.EINVAL
}
