package forward

import (
	"encoding/binary"
	"errors"
	"sync/atomic"
	"unsafe"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// How requests end, as enum ibv_wc_status has it.
const (
	invalidRequest = 9
	accessError    = 10
	operationError = 11
)

// answer is one to a READ or an atomic operation.
type answer struct {
	entry  message.Entry // the question
	status uint32
	value  [8]byte // of an atomic operation
	sent   uint64  // of the bytes of a READ
}

// receive takes an entry of the other side.
func (p *pair) receive(raw []byte) error {
	e, err := ring.Decode(raw)
	if err != nil {
		return err
	}
	payload := raw[message.EntryBytes:]
	if int64(e.Bytes) != int64(len(payload)) || e.Bytes > ring.Fragment {
		return errFrame
	}
	p.received += ring.Whole(e.Bytes)
	if p.broken || (p.refusing || !p.end.Receives()) && e.Opcode != message.EntryReply {
		return nil // the other side learns of that
	}
	switch e.Opcode {
	case message.EntrySend, message.EntryImmediate, message.EntryMore:
		p.arrive(e)
	case message.EntryReply:
		if e.Status != 0 || uint64(e.Bytes) >= e.Total {
			p.answered++
		}
	case message.EntryWrite:
		done, err := p.write(e, payload)
		if err != nil || done {
			return err
		}
	case message.EntryRead, message.EntryAtomicAdd, message.EntryAtomicSwap:
		done, err := p.question(e)
		if err != nil || done {
			return err
		}
	default:
		return errFrame
	}
	if len(p.order) > mostRequests {
		return errFrame
	}
	if err := p.rx.Put(e, payload); err != nil {
		return err
	}
	p.wake()
	return nil
}

// arrive counts a message once all of it is there, as a card acknowledges it.
func (p *pair) arrive(e message.Entry) {
	switch e.Opcode {
	case message.EntrySend:
		p.arriving = e.Total - min(e.Total, uint64(e.Bytes))
	case message.EntryImmediate:
		p.arriving = 0
	default:
		p.arriving -= min(p.arriving, uint64(e.Bytes))
	}
	if p.arriving == 0 && e.Request != 0 {
		p.order = append(p.order, request{number: e.Request})
	}
}

// write carries out a part of a WRITE; false: the owner of the memory does.
func (p *pair) write(e message.Entry, payload []byte) (bool, error) {
	last := uint64(e.Bytes) >= e.Total
	pieces, err := p.end.Reach(e.Key, e.Address, uint64(e.Bytes), broker.RemoteWrite)
	switch {
	case err != nil:
		p.order = append(p.order, request{number: e.Request, status: accessError})
		p.refusing = true
		return true, nil
	case len(pieces) == 0:
		if last {
			p.order = append(p.order, request{number: e.Request, program: true})
		}
		return false, nil
	}
	for _, x := range pieces {
		memory, err := p.memory(x)
		if err != nil {
			return true, err
		}
		copyLast(memory, payload[:x.Bytes])
		payload = payload[x.Bytes:]
	}
	if last {
		p.order = append(p.order, request{number: e.Request})
	}
	p.wake() // it may look for the data when it is woken
	return true, nil
}

// memory is that of a piece.
func (p *pair) memory(x broker.Piece) ([]byte, error) {
	all, err := p.far.o.Host.Memory(x.Segment)
	if err != nil {
		return nil, err
	}
	if x.At > uint64(len(all)) || x.Bytes > uint64(len(all))-x.At {
		return nil, errors.New("shared memory is shorter than its region")
	}
	return all[x.At : x.At+x.Bytes], nil
}

// tail is how many bytes of a WRITE become visible last: programs wait for the last byte.
const tail = 8

// barrier orders copies on processors that would not.
var barrier atomic.Uint32

func copyLast(to, from []byte) {
	if n := len(from) - tail; n > 0 {
		copy(to, from[:n])
		to, from = to[n:], from[n:]
	}
	barrier.Add(1)
	copy(to, from)
}

// question takes a READ or an atomic operation; false: the owner of the memory answers.
func (p *pair) question(e message.Entry) (bool, error) {
	a := answer{entry: e}
	bytes, right := e.Total, uint32(broker.RemoteRead)
	if e.Opcode != message.EntryRead {
		bytes, right = 8, broker.RemoteAtomic
	}
	pieces, err := p.end.Reach(e.Key, e.Address, bytes, right)
	switch {
	case err != nil:
		a.status = accessError
	case len(pieces) == 0 && bytes > 0:
		return false, nil
	case e.Opcode != message.EntryRead:
		if a.value, a.status, err = p.atomic(e, pieces); err != nil {
			return true, err
		}
	}
	if len(p.answers) == mostAnswers {
		return true, errFrame
	}
	p.answers = append(p.answers, a)
	p.refusing = a.status != 0
	return true, nil
}

// mostTurns is how often a program may change a value while it is compared.
const mostTurns = 1 << 16

// atomic carries an atomic operation out, and returns the value before it.
func (p *pair) atomic(e message.Entry, pieces []broker.Piece) (before [8]byte, status uint32, err error) {
	if e.Address%8 != 0 || len(pieces) != 1 || pieces[0].At%8 != 0 {
		return before, invalidRequest, nil
	}
	memory, err := p.memory(pieces[0])
	if err != nil {
		return before, 0, err
	}
	at := (*uint64)(unsafe.Pointer(&memory[0]))
	var old uint64
	if e.Opcode == message.EntryAtomicAdd {
		old = atomic.AddUint64(at, e.Operand[0]) - e.Operand[0]
	} else {
		over := false
		for turn := 0; !over; turn++ {
			if turn == mostTurns {
				return before, operationError, nil
			}
			old = atomic.LoadUint64(at)
			over = old != e.Operand[0] || atomic.CompareAndSwapUint64(at, old, e.Operand[1])
		}
	}
	binary.LittleEndian.PutUint64(before[:], old)
	return before, 0, nil
}

// answer sends answers, as far as the other side has room.
func (p *pair) answer(out []byte, most int) ([]byte, error) {
	if !p.end.Receives() { // its memory is not the other side's any more
		p.answers = nil
	}
	for len(p.answers) > 0 && len(out) < most {
		a := &p.answers[0]
		reply := message.Entry{Opcode: message.EntryReply, Request: a.entry.Request, Status: a.status}
		reads := a.status == 0 && a.entry.Opcode == message.EntryRead
		switch {
		case reads:
			reply.Total = a.entry.Total - a.sent
			reply.Bytes = uint32(min(reply.Total, ring.Fragment))
		case a.status == 0:
			reply.Total, reply.Bytes = 8, 8
		}
		if p.sent-p.seen+ring.Whole(reply.Bytes) > window {
			break
		}
		payload := a.value[:min(reply.Bytes, 8)]
		if reads {
			payload = make([]byte, reply.Bytes)
			if err := p.read(a, payload); err != nil { // the memory is gone meanwhile
				reply.Status, reply.Bytes, reply.Total, payload = accessError, 0, 0, nil
			}
		}
		out = p.send(out, reply, payload)
		if a.sent += uint64(len(payload)); reply.Status != 0 || a.entry.Opcode != message.EntryRead || a.sent >= a.entry.Total {
			p.answers = p.answers[1:]
		}
	}
	return out, nil
}

// read copies the next bytes of a READ.
func (p *pair) read(a *answer, to []byte) error {
	pieces, err := p.end.Reach(a.entry.Key, a.entry.Address+a.sent, uint64(len(to)), broker.RemoteRead)
	if err != nil {
		return err
	}
	for _, x := range pieces {
		memory, err := p.memory(x)
		if err != nil {
			return err
		}
		to = to[copy(to, memory):]
	}
	if len(to) > 0 {
		return errors.New("the memory is its owner's by now")
	}
	return nil
}
