package domain

import (
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
)

// mostCalls is how many calls of the other broker a link has. Those of this one have limits of their own.
const mostCalls = 1 << 15

// callName names a connection by address on its link.
type callName struct {
	number uint64 // at the broker whose program requested it
	own    bool   // which is this one
}

// farCall is a connection by address with a program of another broker. It implements broker.FarCall.
type farCall struct {
	link   *link
	name   callName
	port   broker.Address
	local  broker.FarIdentifier // what stands for the other side's here
	timer  *time.Timer          // of a request that waits for a listener
	closed bool
}

// Call implements broker.Far.
func (f *Far) Call(id broker.FarIdentifier, to broker.Address, ask broker.Step) (broker.FarCall, error) {
	l := f.link(to.LID)
	if l == nil {
		return nil, syscall.EHOSTUNREACH
	}
	l.called++
	c := &farCall{link: l, name: callName{l.called, true}, port: to, local: id}
	l.calls[c.name] = c
	l.send(kindCall, nil, call{Number: c.name.number, FromLID: ask.FromLID, To: ask.ToLID, Space: ask.Space, From: ask.From, Callee: ask.To, Param: ask.Param})
	return c, nil
}

// Address implements broker.FarCall.
func (c *farCall) Address() broker.Address { return c.port }

// Report implements broker.FarCall. Messages of queue pairs need not be waited for: they are in the memory of both.
func (c *farCall) Report(s broker.Step, last bool, _ uint32) {
	if c.closed {
		return
	}
	caller := uint8(0)
	if c.name.own {
		caller = 1
	}
	c.link.send(kindStep, nil, step{Number: c.name.number, Caller: caller, Event: s.Event, Status: s.Status, Param: s.Param})
	if last {
		c.close()
	}
}

// close forgets the call.
func (c *farCall) close() {
	if c.closed {
		return
	}
	c.closed = true
	if c.timer != nil {
		c.timer.Stop()
	}
	delete(c.link.calls, c.name)
	if !c.name.own {
		c.link.theirs--
	}
}

// lost ends a call that has no way to the other side.
func (c *farCall) lost() {
	c.close()
	c.local.Lost()
}

func (l *link) takeCall(raw []byte) error {
	var m call
	if whole(raw, &m) != nil {
		return errMessage
	}
	from, is := l.port(m.FromLID)
	n := callName{number: m.Number}
	if !is || l.calls[n] != nil {
		return errMessage
	}
	m.From.Own, m.Callee.Own = 0, 0
	c := &farCall{link: l, name: n, port: from}
	l.calls[n] = c
	l.theirs++
	if l.theirs > mostCalls {
		c.Report(broker.Refusal(), true, 0)
		return nil
	}
	var giveUp func()
	var err error
	c.local, giveUp, err = l.far.o.Host.Called(broker.Step{
		Event: broker.ConnectRequest, Space: m.Space, Param: m.Param, From: m.From, To: m.Callee, FromLID: m.FromLID, ToLID: m.To,
	}, c)
	if err != nil {
		c.close()
		return errMessage
	}
	if giveUp != nil {
		c.timer = time.AfterFunc(broker.EarlyTime, func() {
			l.far.o.Host.Lock()
			defer l.far.o.Host.Unlock()
			if !c.closed {
				giveUp()
			}
		})
	}
	return nil
}

func (l *link) takeStep(raw []byte) error {
	var m step
	if whole(raw, &m) != nil || m.Caller > 1 {
		return errMessage
	}
	c := l.calls[callName{m.Number, m.Caller == 0}]
	if c == nil { // it has ended here meanwhile
		return nil
	}
	if c.local.Take(broker.Step{Event: m.Event, Status: m.Status, Param: m.Param}) != nil {
		return errMessage
	}
	if c.local.Closed() {
		c.close()
	}
	return nil
}
