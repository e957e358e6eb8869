package domain

import (
	"encoding/binary"
	"errors"
	"net/netip"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// version is raised by every change of the messages below. Brokers of other versions do not meet.
const version = 2

// kind is what a message is about, its first byte.
type kind uint8

const (
	kindHello    kind = iota + 1 // the first one
	kindPort                     // as many as the greeting says
	kindProcess                  // a process, with its descriptors: before its number is used
	kindEnded                    // a process has ended
	kindConnect                  // a queue pair has connected
	kindRings                    // the answer of the side with the lower LID, with the descriptor
	kindFail                     // a queue pair shall fail
	kindGone                     // a queue pair has left its connection
	kindResolve                  // a question
	kindResolved                 // its answer, with extents, and descriptors of segments
	kindAttach                   // a question
	kindAttached                 // its answer, with the descriptor of the inbox
	kindMember                   // of a multicast group
	kindListener                 // a program listens, or does so no more
	kindCall                     // a request for a connection
	kindStep                     // what becomes of it
)

// mostMessage is the size of the largest one, and mostDescriptors how many it has.
const (
	mostMessage     = 4096
	mostDescriptors = message.Extents
)

// mostIPs bounds the addresses of a port.
const mostIPs = 64

var errMessage = errors.New("another broker of the domain has sent what no broker sends")

type (
	hello struct {
		Version uint32
		Build   [message.Build]byte
		Network uint64
		Ports   uint16
	}
	port struct {
		LID uint16
		GID [16]byte
		IPs uint8 // how many follow, of 16 bytes each
	}
	number struct{ Process uint32 }
	// about names a connection, as its sender has it.
	about   struct{ Own, Other uint32 }
	connect struct {
		about
		From, To uint16 // LIDs
		Kind     uint32
		Slot     uint32
		Process  uint32
		Serial   uint32 // of the sender's attempt, which the rings are for
	}
	rings struct {
		about
		Serial uint32
	}
	fail struct {
		about
		Event int32
	}
	resolve struct {
		about
		ID, Key uint32
	}
	resolved struct {
		ID, Errno          uint32
		Addr, Length, IOVA uint64
		Access, Slot       uint32
		Extents            uint32 // how many follow
	}
	attach struct {
		ID, Number uint32
		LID        uint16
	}
	attached struct{ ID, Errno, Process, Slot uint32 }
	member   struct {
		In     uint8
		LID    uint16
		Number uint32
		GID    [16]byte
	}
	listener struct {
		On    uint8
		LID   uint16
		Space uint32
		IP    [16]byte
		Port  uint16
		Four  uint8 // the address is one of IPv4
	}
	call struct {
		Number       uint64
		FromLID, To  uint16
		Space        uint32
		From, Callee message.CMAddress
		Param        message.CMParam
	}
	step struct {
		Number uint64
		Caller uint8 // 1: it comes from the side that has called
		Event  uint32
		Status int32
		Param  message.CMParam
	}
)

// encode makes a message of fixed parts.
func encode(k kind, parts ...any) ([]byte, error) {
	raw := []byte{byte(k)}
	for _, part := range parts {
		var err error
		if raw, err = binary.Append(raw, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	return raw, nil
}

// decode reads a fixed part, and returns what follows it.
func decode(raw []byte, part any) (rest []byte, err error) {
	n, err := binary.Decode(raw, binary.LittleEndian, part)
	if err != nil {
		return nil, errMessage
	}
	return raw[n:], nil
}

// whole reads a message of one part.
func whole(raw []byte, part any) error {
	rest, err := decode(raw, part)
	if err == nil && len(rest) > 0 {
		return errMessage
	}
	return err
}

// encodePort makes the message of a port.
func encodePort(a broker.Address) ([]byte, error) {
	ips := a.IPs[:min(len(a.IPs), mostIPs)]
	parts := []any{port{LID: a.LID, GID: a.GID, IPs: uint8(len(ips))}}
	for _, ip := range ips {
		parts = append(parts, ip.As16())
	}
	return encode(kindPort, parts...)
}

// decodePort reads one.
func decodePort(raw []byte) (a broker.Address, err error) {
	var p port
	if raw, err = decode(raw, &p); err != nil {
		return a, err
	}
	if len(raw) != 16*int(p.IPs) || p.IPs > mostIPs {
		return a, errMessage
	}
	a.LID, a.GID = p.LID, p.GID
	for ; len(raw) > 0; raw = raw[16:] {
		a.IPs = append(a.IPs, netip.AddrFrom16([16]byte(raw)).Unmap())
	}
	return a, nil
}

// listenerOf is how messages have one.
func listenerOf(l broker.Listener, on bool) listener {
	m := listener{LID: l.LID, Space: l.Space, IP: l.At.Addr().As16(), Port: l.At.Port()}
	if on {
		m.On = 1
	}
	if l.At.Addr().Is4() {
		m.Four = 1
	}
	return m
}

// listener is the one of a message.
func (m listener) listener() broker.Listener {
	ip := netip.AddrFrom16(m.IP)
	if m.Four != 0 {
		ip = ip.Unmap()
	}
	return broker.Listener{LID: m.LID, Space: m.Space, At: netip.AddrPortFrom(ip, m.Port)}
}
