package domain

import (
	"errors"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// subject is what a question is about: a key of a connection, or the inbox of a queue pair of a port.
type subject struct {
	name        name
	key         uint32
	lid, number uint32 // lid is 0 for a key
}

// question is one to the other broker, which programs of this one wait for.
type question struct {
	link       *link
	id         uint32
	done       chan struct{} // closed once there is an answer
	answered   bool
	resolution broker.Resolution
	inbox      broker.Inbox
	err        error
}

// keepTime is how long an answer is there for a program that may not ask for it any more.
const keepTime = 10 * time.Second

// ask returns the answer to a question, once. Before, it is Pending, and the question is sent if nobody else has.
func (l *link) ask(s subject, send func(id uint32)) (*question, error) {
	if q := l.questions[s]; q != nil {
		if !q.answered {
			return nil, l.pending(q.done)
		}
		delete(l.questions, s)
		return q, q.err
	}
	if l.silent { // each program would wait without an answer, for each of its questions
		return nil, syscall.ENOTCONN
	}
	for l.question++; ; l.question++ {
		if _, taken := l.asked[l.question]; !taken {
			break
		}
	}
	q := &question{link: l, id: l.question, done: make(chan struct{})}
	l.questions[s], l.asked[q.id] = q, s
	send(q.id)
	return nil, l.pending(q.done)
}

// pending is the error of a request that waits for the other broker. If that is silent, nobody waits, until it has read
// again: then it answers what it was asked before.
func (l *link) pending(done <-chan struct{}) error {
	if l.silent {
		return syscall.ENOTCONN
	}
	return &broker.Pending{Done: done, Late: func() {
		select {
		case <-done:
		default:
			l.silent = true
		}
	}}
}

// resolve returns the memory behind a key of the other side of a connection.
func (l *link) resolve(n name, key uint32) (broker.Resolution, error) {
	q, err := l.ask(subject{name: n, key: key}, func(id uint32) {
		l.send(kindResolve, nil, resolve{n.about(), id, key})
	})
	if err != nil {
		return broker.Resolution{}, err
	}
	return q.resolution, nil
}

// attach returns the inbox of a queue pair.
func (l *link) attach(lid uint16, number uint32) (broker.Inbox, error) {
	q, err := l.ask(subject{lid: uint32(lid), number: number}, func(id uint32) {
		l.send(kindAttach, nil, attach{ID: id, Number: number, LID: lid})
	})
	if err != nil {
		return broker.Inbox{}, err
	}
	return q.inbox, nil
}

// fail replaces an answer by an error.
func (q *question) fail(err error) {
	q.close()
	q.err = err
}

// close frees an answer that nobody gets.
func (q *question) close() {
	for _, s := range q.resolution.Segments {
		s.Close()
	}
	if q.inbox.Segment != nil {
		q.inbox.Segment.Close()
	}
	q.resolution, q.inbox = broker.Resolution{}, broker.Inbox{}
}

// lost answers a question of a link that has ended.
func (q *question) lost() {
	q.fail(syscall.ENOTCONN)
	if !q.answered {
		q.answered = true
		close(q.done)
	}
}

// answer takes the answer to a question: what fill makes of it.
func (l *link) answer(id uint32, errno uint32, fill func(q *question) error) error {
	s, is := l.asked[id]
	if !is {
		return errMessage
	}
	delete(l.asked, id)
	q := l.questions[s]
	if q == nil || q.id != id {
		return errMessage
	}
	if errno != 0 {
		q.err = syscall.Errno(errno)
	} else if err := fill(q); err != nil {
		return err
	}
	q.answered = true
	close(q.done)
	time.AfterFunc(keepTime, func() {
		l.far.o.Host.Lock()
		defer l.far.o.Host.Unlock()
		if l.questions[s] == q {
			delete(l.questions, s)
			q.close()
		}
	})
	return nil
}

// errnoOf is what the other broker learns of an error.
func errnoOf(err error) uint32 {
	if errno, is := errors.AsType[syscall.Errno](err); is {
		return uint32(errno)
	}
	return uint32(syscall.EIO)
}

func (l *link) takeResolve(raw []byte) error {
	var m resolve
	if whole(raw, &m) != nil {
		return errMessage
	}
	var r broker.Resolution
	err := error(syscall.ENOTCONN)
	if p := l.pairs[m.name()]; p != nil && p.process != nil && p.end.Receives() {
		r, err = p.end.Resolve(m.Key)
	}
	var descriptors []int
	for _, s := range r.Segments {
		fd, derr := l.far.o.Host.Descriptor(s, r.ReadOnly)
		if derr != nil {
			err = derr
			break
		}
		descriptors = append(descriptors, fd)
	}
	if err != nil {
		l.send(kindResolved, nil, resolved{ID: m.ID, Errno: errnoOf(err)})
		return nil
	}
	l.send(kindResolved, descriptors, resolved{
		ID: m.ID, Addr: r.Addr, Length: r.Length, IOVA: r.IOVA, Access: r.Access, Slot: r.Slot, Extents: uint32(len(r.Extents)),
	}, r.Extents)
	return nil
}

func (l *link) takeResolved(raw []byte, d *passed) error {
	var m resolved
	raw, err := decode(raw, &m)
	if err != nil || m.Extents > message.Extents || m.Slot >= message.Slots {
		return errMessage
	}
	extents := make([]message.Extent, m.Extents)
	if whole(raw, extents) != nil {
		return errMessage
	}
	return l.answer(m.ID, m.Errno, func(q *question) error {
		fds, _ := d.take(len(d.left))
		bytes := make([]uint64, len(fds))
		for _, x := range extents {
			if int(x.Region) >= len(fds) || x.At+x.Bytes < x.At || x.At+x.Bytes > 1<<62 {
				closeAll(fds)
				return errMessage
			}
			bytes[x.Region] = max(bytes[x.Region], x.At+x.Bytes)
		}
		r := broker.Resolution{Addr: m.Addr, Length: m.Length, IOVA: m.IOVA, Access: m.Access, Slot: m.Slot, Extents: extents, Lent: true}
		for i, fd := range fds {
			s, err := l.far.o.Host.Segment(fd, int64(bytes[i]))
			if err != nil {
				closeAll(fds[i+1:])
				q.resolution = r
				q.close()
				return err
			}
			r.Segments = append(r.Segments, s)
		}
		q.resolution = r
		return nil
	})
}

func (l *link) takeAttach(raw []byte) error {
	var m attach
	if whole(raw, &m) != nil {
		return errMessage
	}
	i, err := l.far.o.Host.Receiver(m.LID, m.Number)
	var fd int
	if err == nil {
		fd, err = l.far.o.Host.Descriptor(i.Segment, false)
	}
	if err != nil {
		l.send(kindAttached, nil, attached{ID: m.ID, Errno: errnoOf(err)})
		return nil
	}
	l.introduce(i.Process, i.Owner)
	l.send(kindAttached, []int{fd}, attached{ID: m.ID, Process: i.Process, Slot: i.Slot})
	return nil
}

func (l *link) takeAttached(raw []byte, d *passed) error {
	var m attached
	if whole(raw, &m) != nil || m.Slot >= message.Slots {
		return errMessage
	}
	return l.answer(m.ID, m.Errno, func(q *question) error {
		p := l.processes[m.Process]
		fds, is := d.take(1)
		if p == nil || !is {
			closeAll(fds)
			return errMessage
		}
		s, err := l.far.o.Host.Segment(fds[0], message.InboxBytes)
		if err != nil {
			return err
		}
		q.inbox = broker.Inbox{Segment: s, Owner: p, Process: p.Number(), Slot: m.Slot, Lent: true}
		return nil
	})
}
