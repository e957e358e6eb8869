package forward

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// kind is that of a frame: what one broker reports to the other.
type kind uint8

// Frames. Those about connections of queue pairs begin with the numbers of two queue pairs: the sender's and
// the receiver's.
const (
	frameHello    kind = 1 + iota // first: version, build, link, ranks
	frameGo                       // second: nothing. What the first one says is still true
	framePing                     // nothing; it is not counted
	frameConnect                  // LID, LID of the other side, type, state
	frameState                    // state
	frameFail                     // event
	frameGone                     // nothing: the queue pair has left the connection
	frameEntry                    // an entry of a ring
	frameSeen                     // what the reader of a ring has consumed, posted and carried out
	frameDatagram                 // LID, number, header, text
	frameTaken                    // LID, number: a datagram is in the inbox, or lost
	frameNobody                   // LID, number: no datagram queue pair is there
	frameReported                 // how many frames were taken; it is not counted itself
	frameVoid                     // anything: what it was is not sent any more
	frameCall                     // number, LIDs, space, addresses, parameters: a request for a connection by address
	frameStep                     // number, whose it is, event, status, parameters: what becomes of that
	frameMember                   // 1 or 0, LID, number, GID: a queue pair is in a multicast group, or not
)

// version is raised by every change of the frames.
const version = 4

// mostFrame bounds a frame in bytes.
const mostFrame = message.EntryBytes + ring.Fragment + 64

// mostCapacities is how many receives one frame announces.
const mostCapacities = 4096

var errFrame = errors.New("a frame that no broker sends")

// begin appends the head of a frame; finish puts its size there.
func begin(out []byte, k kind) ([]byte, int) {
	at := len(out)
	return append(out, 0, 0, 0, 0, byte(k)), at
}

func finish(out []byte, at int) []byte {
	binary.LittleEndian.PutUint32(out[at:], uint32(len(out)-at-4))
	return out
}

// about begins a frame about a connection.
func about(out []byte, k kind, n name) ([]byte, int) {
	out, at := begin(out, k)
	out = binary.LittleEndian.AppendUint32(out, n.own)
	return binary.LittleEndian.AppendUint32(out, n.other), at
}

// readFrame reads one into buf, and returns its kind and body.
func readFrame(r io.Reader, buf []byte) (kind, []byte, error) {
	if _, err := io.ReadFull(r, buf[:5]); err != nil {
		return 0, nil, err
	}
	size := binary.LittleEndian.Uint32(buf)
	if size < 1 || size > mostFrame || int(size) > len(buf) {
		return 0, nil, errFrame
	}
	k := kind(buf[4])
	if _, err := io.ReadFull(r, buf[:size-1]); err != nil {
		return 0, nil, err
	}
	return k, buf[:size-1], nil
}

// body reads the parts of a frame. After a part that is not there, failed is true.
type body struct {
	raw    []byte
	failed bool
}

func (b *body) take(n int) []byte {
	if n > len(b.raw) {
		b.failed = true
		return make([]byte, n)
	}
	part := b.raw[:n]
	b.raw = b.raw[n:]
	return part
}

func (b *body) u8() uint8   { return b.take(1)[0] }
func (b *body) u16() uint16 { return binary.LittleEndian.Uint16(b.take(2)) }
func (b *body) u32() uint32 { return binary.LittleEndian.Uint32(b.take(4)) }
func (b *body) u64() uint64 { return binary.LittleEndian.Uint64(b.take(8)) }

// read reads a struct of the protocol.
func (b *body) read(to any) {
	if _, err := binary.Decode(b.take(binary.Size(to)), binary.LittleEndian, to); err != nil {
		b.failed = true
	}
}

// write appends such structs.
func write(out []byte, parts ...any) []byte {
	for _, p := range parts {
		var err error
		if out, err = binary.Append(out, binary.LittleEndian, p); err != nil {
			panic(err) // it has no fixed size
		}
	}
	return out
}

// state reads that of a queue pair.
func (b *body) state() broker.State {
	s := broker.State(b.u8())
	b.failed = b.failed || s > broker.Failed
	return s
}

// name reads the numbers of a connection, as this side has them.
func (b *body) name() name {
	other := b.u32()
	return name{own: b.u32(), other: other}
}

// greeting is the body of frameHello.
type greeting struct {
	Build string
	// Link is the number of the link that the broker has with the other one, 0 where it has none, and Received how
	// many frames came by that. Nonce is a random part of the number of a new link.
	Link, Received, Nonce uint64
	Ranks                 []int
}

func (g greeting) frame() []byte {
	out, at := begin(nil, frameHello)
	out = binary.LittleEndian.AppendUint32(out, version)
	out = append(out, make([]byte, message.Build)...)
	copy(out[len(out)-message.Build:], g.Build)
	for _, n := range []uint64{g.Link, g.Received, g.Nonce} {
		out = binary.LittleEndian.AppendUint64(out, n)
	}
	for _, r := range g.Ranks {
		out = binary.LittleEndian.AppendUint16(out, uint16(r))
	}
	return finish(out, at)
}

// readGreeting reads the other side's, which has to be of the same build.
func readGreeting(r io.Reader, build string) (g greeting, err error) {
	k, raw, err := readFrame(r, make([]byte, mostFrame))
	if err != nil {
		return g, err
	}
	b := body{raw: raw}
	v := b.u32()
	g.Build = string(b.take(message.Build))
	g.Link, g.Received, g.Nonce = b.u64(), b.u64(), b.u64()
	if k != frameHello || b.failed || v != version || g.Build != build || len(b.raw)%2 != 0 {
		return g, errors.New("the other host has another build of bee's device bee_0")
	}
	for len(b.raw) > 0 {
		g.Ranks = append(g.Ranks, int(b.u16()))
	}
	return g, nil
}
