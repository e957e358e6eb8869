// Package message is the protocol between verbs.so, the library in the processes of
// containers, and the broker, as verbs/protocol.h and verbs/shared.h have it. It knows bytes alone.
package message

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"syscall"
)

// Sizes and limits.
const (
	Protocol = 6
	Packet   = 4096
	Build    = 32
	Slots    = 65536
	Counters = 32
	Credits  = 16384
	Extents  = 32
	Members  = 256
	// Descriptors is how many a reply has at most.
	Descriptors = 36
	// CMPrivate is how many bytes of private data a connection has at most.
	CMPrivate = 196
)

// Sizes in bytes of the memory that processes share.
const (
	RingData   = 1 << 20
	RingBytes  = 4096 + 4*Credits + RingData
	PairBytes  = 2 * RingBytes
	InboxSlots = 256
	InboxSlot  = 4352
	InboxBytes = 4096 + InboxSlots*InboxSlot
	PageBytes  = 4096
	TableBytes = 8*Slots + 4*Slots
)

// Places in a process page.
const (
	PageSleeping = 0
	PageCounters = 64
)

// Places in a ring.
const (
	RingHead       = 0
	RingTail       = 64
	RingPosted     = 128
	RingDone       = 256
	RingDoneStatus = 264
	RingAttached   = 268
	RingCapacity   = 4096
	RingEntries    = RingCapacity + 4*Credits
)

// EntryBytes is the size of the head of an entry, and the unit of places in a ring.
const EntryBytes = 64

// Kinds of entries of a ring.
const (
	EntrySkip uint32 = iota
	EntrySend
	EntryMore
	EntryImmediate
	EntryWrite
	EntryRead
	EntryAtomicAdd
	EntryAtomicSwap
	EntryReply
)

// FlagClaimed marks an entry for which its sender has claimed a receive.
const FlagClaimed = 8

// Entry is the head of an entry of a ring.
type Entry struct {
	Opcode, Flags, Bytes, Imm uint32
	Total, Request, Address   uint64
	Key, Status               uint32
	Operand                   [2]uint64
}

// Places in an inbox, and in a slot of it.
const (
	InboxReceives = 64
	InboxEntries  = 4096
	InboxHeader   = 256
	InboxMessage  = InboxSlot - InboxHeader
)

// Places in a process table.
const (
	TableQPs  = 0
	TableKeys = 8 * Slots
)

// Op is an operation.
type Op uint16

// Operations, one for each kind of request.
const (
	OpHello Op = 1 + iota
	OpCreate
	OpDestroy
	OpCreateQP
	OpModifyQP
	OpConnect
	OpFailQP
	OpCreateRegion
	OpRegister
	OpResolve
	OpAttach
	OpRaise
	OpJoin
	OpLeave
	OpMembers
	OpCMChannel
	OpCMID
	OpCMBind
	OpCMListen
	OpCMResolve
	OpCMRoute
	OpCMConnect
	OpCMAccept
	OpCMReject
	OpCMDisconnect
	OpCMMigrate
	OpCMEvent
	OpCMJoin
)

// Kinds of objects.
const (
	KindPD uint32 = 1 + iota
	KindCQ
	KindSRQ
	KindChannel
	KindAH
	KindQP
	KindMR
	KindRegion
	KindCMChannel
	KindCMID
	// Kinds is one more than the last one.
	Kinds
)

// Counters of the library, by their place in the page.
const (
	CountSends = iota
	CountReceives
	CountWrites
	CountReads
	CountAtomics
	CountRingBytes
	CountDirectBytes
	CountStagedBytes
	CountStaged
	CountErrors
	CountWakes
)

// Hello is the first request of a connection.
type Hello struct {
	Protocol, PID uint32
	Build         [Build]byte
}

// HelloReply describes the device.
type HelloReply struct {
	Process                                   uint32
	LID                                       uint16
	_                                         uint16
	GUID                                      [8]byte
	GID                                       [16]byte
	Memory                                    uint64
	MaxQP, MaxCQ, MaxPD, MaxMR, MaxSRQ, MaxAH uint32
	MaxWR, MaxSGE, MaxInline, MaxRDAtomic     uint32
}

// Create makes an object that only counts.
type Create struct{ Kind, PD uint32 }

// Created is the reply to requests that make objects.
type Created struct{ Handle, _ uint32 }

// Destroy destroys an object.
type Destroy struct{ Handle, _ uint32 }

// CreateQP makes a queue pair.
type CreateQP struct {
	Type, PD, SendCQ, RecvCQ, SRQ, MaxSend, MaxRecv, _ uint32
}

// CreateQPReply names a queue pair.
type CreateQPReply struct{ Handle, Number, Slot, _ uint32 }

// ModifyQP changes a queue pair, by the attributes in Mask.
type ModifyQP struct {
	Handle, Mask, State, Current, MTU, QKey, ReceivePSN, SendPSN, Destination, Access uint32

	PKeyIndex, LID                               uint16
	GID                                          [16]byte
	Global, SGIDIndex, AHPort, Port              uint8
	Timeout, Retries, RNRRetries, MinRNRTimer    uint8
	MaxRDAtomic, MaxDestRDAtomic, Path, SQDEvent uint8
}

// ModifyQPReply has the state that a queue pair has then.
type ModifyQPReply struct{ State, _ uint32 }

// Connect asks for the pair of rings of a queue pair.
type Connect struct{ Handle, _ uint32 }

// ConnectReply describes the peer.
type ConnectReply struct {
	Present, Process, Slot uint32
	TX, RX                 uint8
	Far                    uint16
}

// FailQP moves a queue pair to error, and perhaps its peer.
type FailQP struct {
	Handle, SQE uint32
	Event       int32
	Peer        uint32
	PeerEvent   int32
	_           uint32
}

// CreateRegion asks for shared memory.
type CreateRegion struct{ Bytes uint64 }

// Extent is a part of a memory region of verbs in shared memory.
type Extent struct {
	Offset, At, Bytes uint64
	Region, _         uint32
}

// Register makes a memory region. Its extents follow. Replaces is the handle of one that ends by it, whose key the
// new one has while there are slots for that; 0: none.
type Register struct {
	PD, Access         uint32
	Addr, Length, IOVA uint64
	Count, Replaces    uint32
}

// RegisterReply has the key of a memory region.
type RegisterReply struct{ Handle, Key, Slot, _ uint32 }

// Resolve asks for the memory behind a key of the peer.
type Resolve struct{ Handle, Key uint32 }

// ResolveReply describes that memory. Its extents follow.
type ResolveReply struct {
	Addr, Length, IOVA     uint64
	Access, Slot, Count, _ uint32
}

// Attach asks for the inbox of a datagram queue pair.
type Attach struct {
	Number    uint32
	LID       uint16
	Global, _ uint8
	GID       [16]byte
}

// AttachReply describes its owner.
type AttachReply struct{ Process, Slot uint32 }

// Raise sends an event to the process itself.
type Raise struct{ Event, Handle uint32 }

// Group names a multicast group, for a queue pair.
type Group struct {
	Handle uint32
	LID, _ uint16
	GID    [16]byte
}

// Member is a queue pair of a multicast group, with the LID of its port.
type Member struct {
	Number uint32
	LID, _ uint16
}

// MembersReply is followed by the members.
type MembersReply struct{ Count, _ uint32 }

// Event is a message on the socket of events.
type Event struct{ Event, Handle uint32 }

// Request is a decoded request: Body points to the struct of its operation.
type Request struct {
	Op      Op
	Body    any
	Extents []Extent
}

const (
	requestHeader = 8
	replyHeader   = 16
	offsetBytes   = 8
	extentBytes   = 32
)

// bodies are the structs of requests, by operation.
var bodies = map[Op]reflect.Type{
	OpHello: reflect.TypeFor[Hello](), OpCreate: reflect.TypeFor[Create](), OpDestroy: reflect.TypeFor[Destroy](),
	OpCreateQP: reflect.TypeFor[CreateQP](), OpModifyQP: reflect.TypeFor[ModifyQP](), OpConnect: reflect.TypeFor[Connect](),
	OpFailQP: reflect.TypeFor[FailQP](), OpCreateRegion: reflect.TypeFor[CreateRegion](), OpRegister: reflect.TypeFor[Register](),
	OpResolve: reflect.TypeFor[Resolve](), OpAttach: reflect.TypeFor[Attach](), OpRaise: reflect.TypeFor[Raise](),
	OpJoin: reflect.TypeFor[Group](), OpLeave: reflect.TypeFor[Group](), OpMembers: reflect.TypeFor[Group](),
	OpCMChannel: reflect.TypeFor[CMCall](), OpCMID: reflect.TypeFor[CMCall](), OpCMBind: reflect.TypeFor[CMBind](),
	OpCMListen: reflect.TypeFor[CMCall](), OpCMResolve: reflect.TypeFor[CMResolve](), OpCMRoute: reflect.TypeFor[CMCall](),
	OpCMConnect: reflect.TypeFor[CMAnswer](), OpCMAccept: reflect.TypeFor[CMAnswer](), OpCMReject: reflect.TypeFor[CMAnswer](),
	OpCMDisconnect: reflect.TypeFor[CMCall](), OpCMMigrate: reflect.TypeFor[CMCall](), OpCMEvent: reflect.TypeFor[CMCall](),
	OpCMJoin: reflect.TypeFor[CMCall](),
}

// Decode reads a request. Every packet that is none of the protocol is an error.
func Decode(packet []byte) (Request, error) {
	if len(packet) < requestHeader {
		return Request{}, fmt.Errorf("request of %d bytes", len(packet))
	}
	size, op := binary.LittleEndian.Uint32(packet), Op(binary.LittleEndian.Uint16(packet[4:]))
	kind, known := bodies[op]
	if !known {
		return Request{}, fmt.Errorf("no operation has number %d", op)
	}
	if uint64(size) != uint64(len(packet)) {
		return Request{}, fmt.Errorf("request of %d bytes names %d", len(packet), size)
	}
	r := Request{Op: op, Body: reflect.New(kind).Interface()}
	n, err := binary.Decode(packet[requestHeader:], binary.LittleEndian, r.Body)
	if err != nil {
		return Request{}, fmt.Errorf("operation %d: request of %d bytes is too short", op, len(packet))
	}
	rest := packet[requestHeader+n:]
	if register, is := r.Body.(*Register); is {
		if register.Count > Extents || len(rest) != int(register.Count)*extentBytes {
			return Request{}, fmt.Errorf("%d extents in %d bytes", register.Count, len(rest))
		}
		r.Extents = make([]Extent, register.Count)
		if _, err := binary.Decode(rest, binary.LittleEndian, r.Extents); err != nil {
			return Request{}, err
		}
		return r, nil
	}
	if len(rest) > 0 {
		return Request{}, fmt.Errorf("operation %d: %d bytes too many", op, len(rest))
	}
	return r, nil
}

// Encode encodes a request.
func Encode(op Op, body any) ([]byte, error) {
	packet, err := binary.Append(make([]byte, requestHeader), binary.LittleEndian, body)
	if err != nil {
		return nil, err
	}
	binary.LittleEndian.PutUint32(packet, uint32(len(packet)))
	binary.LittleEndian.PutUint16(packet[4:], uint16(op))
	return packet, nil
}

// Reply encodes a reply that has its parts after the header and the offsets: of its descriptors, where the mapping begins.
func Reply(op Op, offsets []uint64, parts ...any) ([]byte, error) {
	if len(offsets) > Descriptors {
		return nil, errors.New("the reply has more descriptors than there may be")
	}
	packet := make([]byte, replyHeader+Descriptors*offsetBytes)
	for i, at := range offsets {
		binary.LittleEndian.PutUint64(packet[replyHeader+i*offsetBytes:], at)
	}
	for _, part := range parts {
		var err error
		if packet, err = binary.Append(packet, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	if len(packet) > Packet {
		return nil, errors.New("the reply is larger than a packet")
	}
	putReplyHeader(packet, op, len(offsets), 0)
	return packet, nil
}

// Shift lowers the offset of the i-th descriptor of a reply; false: that is none, or its offset is less.
func Shift(packet []byte, i int, by uint64) bool {
	at := replyHeader + i*offsetBytes
	if i < 0 || i >= Descriptors || len(packet) < replyHeader+Descriptors*offsetBytes {
		return false
	}
	offset := binary.LittleEndian.Uint64(packet[at:])
	if offset < by {
		return false
	}
	binary.LittleEndian.PutUint64(packet[at:], offset-by)
	return true
}

// Refusal encodes a reply that is an error.
func Refusal(op Op, errno syscall.Errno) []byte {
	packet := make([]byte, replyHeader)
	putReplyHeader(packet, op, 0, errno)
	return packet
}

// Instead encodes a refusal that goes in place of a reply.
func Instead(reply []byte, errno syscall.Errno) ([]byte, error) {
	if len(reply) < replyHeader {
		return nil, fmt.Errorf("a reply of %d bytes", len(reply))
	}
	return Refusal(Op(binary.LittleEndian.Uint16(reply[4:])), errno), nil
}

// Refused returns the error of a reply; 0: it is none.
func Refused(reply []byte) syscall.Errno {
	if len(reply) < replyHeader {
		return 0
	}
	return syscall.Errno(binary.LittleEndian.Uint32(reply[8:]))
}

func putReplyHeader(packet []byte, op Op, descriptors int, errno syscall.Errno) {
	binary.LittleEndian.PutUint32(packet, uint32(len(packet)))
	binary.LittleEndian.PutUint16(packet[4:], uint16(op))
	binary.LittleEndian.PutUint16(packet[6:], uint16(descriptors))
	binary.LittleEndian.PutUint32(packet[8:], uint32(errno))
}
