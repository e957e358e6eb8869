package forward

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// Bounds of connections by address.
const (
	// mostCalls is how many calls of the other machine a link has. Those of this machine have limits of their own.
	mostCalls = 1 << 15
	// callTime is how long a request waits for a link.
	callTime = 20 * time.Second
	// endTime is how long the messages may take that come before the end of a connection.
	endTime = 500 * time.Millisecond
)

// callName names a connection by address on its link.
type callName struct {
	number uint64 // at the broker whose program requested it
	own    bool   // which is the one of this machine
}

// call is a connection by address with a program of another machine. It implements broker.FarCall.
type call struct {
	far    *Far
	link   *link // nil: there is none yet
	name   callName
	rank   int
	local  broker.FarIdentifier // what stands for the other machine's here
	ask    broker.Step          // while there is no link
	timer  *time.Timer          // of a request that waits for a link, or for a listener
	since  time.Time            // of its request on the link
	closed bool
}

// Find implements broker.Far. Requests wait at the machine that is called.
func (f *Far) Find(_ uint32, to netip.AddrPort) (a broker.Address, ready, is bool) {
	rank, is := f.o.Named(to.Addr())
	if !is || f.ended || slices.Contains(f.o.Ranks, rank) {
		return broker.Address{}, false, false
	}
	return f.o.Address(rank), true, true
}

// Listen implements broker.Far. The machine that is called knows who listens.
func (*Far) Listen(broker.Listener, bool) {}

// Call implements broker.Far.
func (f *Far) Call(id broker.FarIdentifier, to broker.Address, ask broker.Step) (broker.FarCall, error) {
	rank, is := f.o.Rank(to.LID, false, [16]byte{})
	if !is || f.ended {
		return nil, errors.New("no node has the address of a connection")
	}
	f.called++
	c := &call{far: f, name: callName{f.called, true}, rank: rank, local: id, ask: ask}
	if l := f.links[rank]; l != nil {
		l.request(c)
		return c, nil
	}
	f.callers[rank] = append(f.callers[rank], c)
	c.after(callTime, c.lost)
	f.o.Want(rank)
	return c, nil
}

// after calls a function unless the call has been closed, or has got a link, by then.
func (c *call) after(d time.Duration, f func()) {
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		c.far.o.Host.Lock()
		defer c.far.o.Host.Unlock()
		if c.timer == t {
			f()
		}
	})
	c.timer = t
}

func (c *call) stop() {
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}

// lost ends a call that has no way to the other machine.
func (c *call) lost() {
	if !c.closed {
		c.close()
		c.local.Lost()
	}
}

// close forgets a call.
func (c *call) close() {
	c.closed = true
	c.stop()
	if l := c.link; l != nil {
		delete(l.calls, c.name)
		if !c.name.own {
			l.called--
		}
		return
	}
	f := c.far
	if f.callers[c.rank] = slices.DeleteFunc(f.callers[c.rank], func(o *call) bool { return o == c }); len(f.callers[c.rank]) == 0 {
		delete(f.callers, c.rank)
	}
}

// Address implements broker.FarCall.
func (c *call) Address() broker.Address { return c.far.o.Address(c.rank) }

// Report implements broker.FarCall.
func (c *call) Report(s broker.Step, last bool, before uint32) {
	if c.closed {
		return
	}
	l := c.link
	if last {
		c.close()
	}
	if l == nil {
		return
	}
	p := l.sending(before)
	if !last || p == nil {
		l.control(c.append(l.out, s))
		return
	}
	l.ends = append(l.ends, ending{frame: finish(c.append(nil, s)), after: p, by: time.Now().Add(endTime)})
	time.AfterFunc(endTime, l.kick)
	l.kick()
}

// append begins the frame of a step.
func (c *call) append(out []byte, s broker.Step) ([]byte, int) {
	out, at := begin(out, frameStep)
	out = binary.LittleEndian.AppendUint64(out, c.name.number)
	return write(out, c.name.own, s.Event, s.Status, s.Param), at
}

// request sends the request of a call.
func (l *link) request(c *call) {
	c.stop()
	c.link, c.since = l, time.Now()
	l.calls[c.name] = c
	out, at := begin(l.out, frameCall)
	out = binary.LittleEndian.AppendUint64(out, c.name.number)
	s := c.ask
	l.control(write(out, s.FromLID, s.ToLID, s.Space, s.From, s.To, s.Param), at)
}

// takeCall takes the request of a program of the other machine.
func (l *link) takeCall(b *body) error {
	s := broker.Step{Event: broker.ConnectRequest}
	name := callName{number: b.u64()}
	for _, part := range []any{&s.FromLID, &s.ToLID, &s.Space, &s.From, &s.To, &s.Param} {
		b.read(part)
	}
	rank, is := l.far.o.Rank(s.FromLID, false, [16]byte{})
	if b.failed || len(b.raw) > 0 || !is || !slices.Contains(l.ranks, rank) || l.calls[name] != nil {
		return errFrame
	}
	s.From.Own, s.To.Own = 0, 0
	c := &call{far: l.far, link: l, name: name, rank: rank}
	if l.called == mostCalls {
		l.control(c.append(l.out, broker.Refusal()))
		return nil
	}
	l.called++
	l.calls[name] = c
	var giveUp func()
	var err error
	if c.local, giveUp, err = l.far.o.Host.Called(s, c); err != nil {
		c.close()
		return errFrame
	}
	if giveUp != nil {
		c.after(broker.EarlyTime, giveUp)
	}
	return nil
}

// takeStep takes what becomes of a call.
func (l *link) takeStep(b *body) error {
	var own bool
	var s broker.Step
	number := b.u64()
	for _, part := range []any{&own, &s.Event, &s.Status, &s.Param} {
		b.read(part)
	}
	if b.failed || len(b.raw) > 0 {
		return errFrame
	}
	c := l.calls[callName{number, !own}]
	if c == nil { // it has ended here meanwhile
		return nil
	}
	if c.local.Take(s) != nil {
		return errFrame
	}
	if c.local.Closed() {
		c.close()
	}
	return nil
}

// ending is a frame that comes after the messages of a connection of queue pairs, or at a time at the latest.
type ending struct {
	frame []byte
	after *pair
	by    time.Time
}

// sending returns the connection of a queue pair of this machine that has messages to send; nil: it has none.
func (l *link) sending(number uint32) *pair {
	for _, p := range l.order {
		if p.name.own == number && p.sending() {
			return p
		}
	}
	return nil
}

// sending reports whether the program has written what is not sent yet.
func (p *pair) sending() bool {
	return p.connected && !p.broken && p.link != nil && p.tx.Waiting()
}

// ended appends the frames whose messages have been sent.
func (l *link) ended(out []byte) []byte {
	l.ends = slices.DeleteFunc(l.ends, func(e ending) bool {
		if e.after.sending() && time.Now().Before(e.by) {
			return false
		}
		out = append(out, e.frame...)
		return true
	})
	return out
}
