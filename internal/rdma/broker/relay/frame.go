// Package relay has the programs of a virtual machine reach the broker of its host. Each program has a stream between
// its guest and the host, with a half of a relay at either end: in the host, Host is a program to the broker; in the
// guest, Guest is the broker to the program. No descriptor passes from one to the other. Memory is in the pool that both
// have, and each socket that a reply has is two, between which the halves carry what is sent.
//
// What programs exchange does not pass here, nor does the package know what requests are about.
package relay

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// kind is what a frame is.
type kind uint8

const (
	kindRequest kind = iota + 1 // a packet of the program
	kindReply                   // descriptors, and a packet of the broker
	kindData                    // what was sent on a socket
	kindEnd                     // a socket has ended
)

// Kinds of descriptors of a reply.
const (
	ofMemory uint8 = iota
	ofMemoryToRead
	ofStream
	ofPackets
)

const (
	headBytes = 9 // of a frame: kind, number of the socket, length
	passBytes = 5 // of a descriptor in a reply: kind, number of the socket
	mostBytes = 1 + message.Descriptors*passBytes + message.Packet
	// mostData is how much of a socket passes at once. Events have less.
	mostData = 256
)

// frame is one.
type frame struct {
	kind kind
	id   uint32 // of a socket
	body []byte
}

func (f frame) encode() []byte {
	raw := make([]byte, headBytes, headBytes+len(f.body))
	raw[0] = byte(f.kind)
	binary.LittleEndian.PutUint32(raw[1:], f.id)
	binary.LittleEndian.PutUint32(raw[5:], uint32(len(f.body)))
	return append(raw, f.body...)
}

func readFrame(r io.Reader) (frame, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return frame{}, err
	}
	f := frame{kind: kind(head[0]), id: binary.LittleEndian.Uint32(head[1:])}
	n := binary.LittleEndian.Uint32(head[5:])
	if n > mostBytes {
		return frame{}, fmt.Errorf("a frame of %d bytes, expected at most %d", n, mostBytes)
	}
	f.body = make([]byte, n)
	_, err := io.ReadFull(r, f.body)
	return f, err
}

// pass is a descriptor of a reply.
type pass struct {
	kind uint8
	id   uint32 // of a socket
}

func encodeReply(passes []pass, packet []byte) []byte {
	body := []byte{byte(len(passes))}
	for _, p := range passes {
		body = binary.LittleEndian.AppendUint32(append(body, p.kind), p.id)
	}
	return append(body, packet...)
}

func decodeReply(body []byte) (passes []pass, packet []byte, err error) {
	if len(body) == 0 || int(body[0]) > message.Descriptors || len(body) < 1+int(body[0])*passBytes {
		return nil, nil, fmt.Errorf("a reply of %d bytes", len(body))
	}
	n, rest := int(body[0]), body[1:]
	for range n {
		passes = append(passes, pass{rest[0], binary.LittleEndian.Uint32(rest[1:])})
		rest = rest[passBytes:]
	}
	if len(rest) > message.Packet {
		return nil, nil, fmt.Errorf("a reply with a packet of %d bytes", len(rest))
	}
	return passes, rest, nil
}
