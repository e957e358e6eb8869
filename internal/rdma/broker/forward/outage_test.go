package forward

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/ring"
)

// hear has a machine take frames of a connection.
func hear(t *testing.T, m *machine, frames []byte) {
	t.Helper()
	for ; len(frames) > 0; frames = frames[frameBytes(frames):] {
		if err := m.link.hear(kind(frames[4]), frames[5:frameBytes(frames)]); err != nil {
			t.Fatal(err)
		}
	}
}

// TestPatience: in an outage, a queue pair with requests under way fails after its own time, and not before. What it
// has sent is not carried out any more. One without requests stays.
func TestPatience(t *testing.T) {
	a, b := newMachines(t)
	patience := a.pair.end.LongestWait()
	if patience < time.Second || patience > 10*time.Second {
		t.Fatalf("a queue pair is patient for %s", patience)
	}
	now := time.Now()
	a.link.since = now
	a.link.expire(now)
	a.link.expire(now.Add(time.Hour))
	if len(a.process.events) > 0 {
		t.Fatal("a queue pair without requests has failed")
	}
	program := ring.Writer{Ring: a.pair.tx.Ring}
	if err := program.Put(message.Entry{Opcode: message.EntrySend, Request: 1}, nil); err != nil {
		t.Fatal(err)
	}
	if out := a.link.next(); len(out) == 0 || a.pair.tx.Waiting() { // lost with the connection
		t.Fatal("the message was not sent")
	}
	c := newCaller(t, a)
	a.link.expire(now)
	a.link.expire(now.Add(patience))
	if len(a.process.events) > 0 {
		t.Fatal("a queue pair has failed too early")
	}
	a.link.expire(now.Add(patience + time.Millisecond))
	if len(a.process.events) != 1 || a.link.over || c.next().Handle != 0 {
		t.Errorf("events %v", a.process.events)
	}
	again, err := a.link.sent.again(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, frames := range append(again, a.link.next()) {
		hear(t, b, frames)
	}
	if (&ring.Reader{Ring: b.pair.rx.Ring}).Waiting() {
		t.Error("a message arrives whose request has failed")
	}
	if state := b.far.o.Peer.(*plainProcess).states[b.pair.slot]; state != uint32(broker.Failed)+1 {
		t.Errorf("the other side has it in state %d", state)
	}
}

// TestOutageOfCalls: a connection by address ends with its queue pair, and a request without an answer after a time.
func TestOutageOfCalls(t *testing.T) {
	a, b := newMachines(t)
	server, client := newCaller(t, b), newCaller(t, a)
	l := server.listen(7)
	connected := client.request(1, 7)
	pass(t, a, b)
	child := server.expect(broker.ConnectRequest, l, 0).Child
	server.must(server.s.AcceptConnection(&message.CMAnswer{Handle: child}))
	pass(t, b, a)
	client.expect(broker.ConnectResponse, connected, 0)
	client.must(client.s.AcceptConnection(&message.CMAnswer{Handle: connected}))
	pass(t, a, b)
	server.expect(broker.Established, child, 0)
	waiting := client.request(1, 7)
	now := time.Now()
	a.link.since = now
	a.link.expire(now.Add(callTime))
	if e := client.next(); e.Handle != 0 {
		t.Errorf("event %d", e.Event)
	}
	a.link.expire(now.Add(callTime + time.Second))
	client.expect(broker.Unreachable, waiting, -110)
	a.link.abandon(func(c *call) bool { return c.local.QueuePair() == 99 })
	client.expect(broker.Disconnected, connected, 0)
	hear(t, b, a.link.next())
	server.expect(broker.Disconnected, child, 0)
	server.next()
	if server.next().Handle != 0 || len(a.link.calls)+len(b.link.calls) > 0 {
		t.Errorf("calls %v and %v are left", a.link.calls, b.link.calls)
	}
}

// TestRequestInLongOutage: a request that comes late in an outage waits as long as one that came before.
func TestRequestInLongOutage(t *testing.T) {
	a, _ := newMachines(t)
	client := newCaller(t, a)
	now := time.Now()
	a.link.since = now.Add(-time.Hour)
	id := client.request(1, 7)
	a.link.expire(now.Add(callTime - time.Second))
	if e := client.next(); e.Handle != 0 {
		t.Errorf("event %d", e.Event)
	}
	a.link.expire(time.Now().Add(callTime + time.Second))
	client.expect(broker.Unreachable, id, -110)
}

// TestLiesAboutFrames: who claims to have what was not sent has no link any more.
func TestLiesAboutFrames(t *testing.T) {
	a, _ := newMachines(t)
	out, at := begin(nil, frameReported)
	out = finish(append(out, 0xff, 0xff, 0, 0, 0, 0, 0, 0), at)
	if err := a.link.hear(frameReported, out[5:]); !errors.Is(err, errFrame) {
		t.Errorf("got %v", err)
	}
	a.link.conn, a.link.idle = wire(t)[0], make(chan struct{})
	a.link.broke(true)
	if len(a.process.events) != 1 || a.far.links[1] != nil {
		t.Errorf("events %v, links %v", a.process.events, a.far.links)
	}
}

// TestOtherLink: a connection continues the link that both sides have. Where one has none, or another, or claims to
// have what was not sent, the queue pairs of the former link fail.
func TestOtherLink(t *testing.T) {
	for name, tc := range map[string]struct {
		theirs    greeting
		continues bool
		fails     bool
	}{
		"the same":         {greeting{Link: 6, Ranks: []int{1}}, true, false},
		"none":             {greeting{Ranks: []int{1}}, false, false},
		"another":          {greeting{Link: 5, Ranks: []int{1}}, false, false},
		"other nodes":      {greeting{Link: 6, Ranks: []int{1, 2}}, false, false},
		"frames not sent":  {greeting{Link: 6, Received: 99, Ranks: []int{1}}, false, false},
		"an old greeting":  {greeting{Link: 6, Received: 0, Ranks: []int{1}}, true, false},
		"fewer than known": {greeting{Link: 6, Received: 1, Ranks: []int{1}}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			a, _ := newMachines(t)
			a.link.id, a.link.received = 6, 7
			if name == "fewer than known" {
				a.link.sent.frames, a.link.sent.taken = 3, 2
			}
			own, conn := a.far.greeting(1), wire(t)[0]
			if own.Link != 6 || own.Received != 7 {
				t.Errorf("the greeting: %+v", own)
			}
			l, _, err := a.far.begin(conn, 1, own, tc.theirs)
			if (err != nil) != tc.fails || !tc.fails && (l == a.link) != tc.continues || (len(a.process.events) == 0) != tc.continues {
				t.Errorf("%v, events %v", err, a.process.events)
			}
			if _, _, err := a.far.begin(conn, 1, own, tc.theirs); err == nil && !tc.fails {
				t.Error("two connections")
			}
		})
	}
}

// FuzzGreeting: no greeting stops the reader, and what is read has the same bytes again.
func FuzzGreeting(f *testing.F) {
	f.Add(greeting{Build: string(make([]byte, message.Build)), Link: 1, Nonce: 2, Ranks: []int{1, 2}}.frame())
	f.Fuzz(func(t *testing.T, raw []byte) {
		g, err := readGreeting(bytes.NewReader(raw), string(make([]byte, message.Build)))
		if err == nil && !bytes.HasPrefix(raw, g.frame()) {
			t.Errorf("%+v", g)
		}
	})
}
