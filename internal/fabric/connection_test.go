package fabric

import (
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// udp is a frame of a flow, with a number.
func udp(to, from, flow, number, size int) []byte {
	p := make([]byte, max(size, headerIPv4+8+8))
	p[0], p[9] = 0x45, protocolUDP
	copy(p[12:], Address(from).AsSlice())
	copy(p[16:], Address(to).AsSlice())
	binary.BigEndian.PutUint16(p[headerIPv4:], uint16(20000+flow))
	binary.BigEndian.PutUint32(p[headerIPv4+8:], uint32(flow))
	binary.BigEndian.PutUint32(p[headerIPv4+12:], uint32(number))
	return frame(macOf(to), macOf(from), string(p))
}

// numberOf gives the flow and the number of such a frame.
func numberOf(raw []byte) (flow, number int) {
	p := raw[ethernetHeader+headerIPv4+8:]
	return int(binary.BigEndian.Uint32(p)), int(binary.BigEndian.Uint32(p[4:]))
}

// cable is a connection that can be held up, or cut.
type cable struct {
	sync.Mutex // held: nothing passes
	ends       []net.Conn
}

func (c *cable) cut() {
	for _, e := range c.ends {
		e.Close()
	}
}

// carry has what is read from one end written to the other.
func (c *cable) carry(to, from net.Conn) {
	defer c.cut()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		c.Lock()
		c.Unlock() //nolint:staticcheck // that is the gate
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// lay makes a connection of a link between two guests' switches.
func lay(t testing.TB, a, b *guest, slot int) *cable {
	t.Helper()
	return layWith(t, a, b, slot, (*cable).carry)
}

func layWith(t testing.TB, a, b *guest, slot int, carry func(c *cable, to, from net.Conn)) *cable {
	t.Helper()
	x, in := testkit.Line(t)
	y, out := testkit.Line(t)
	c := &cable{ends: []net.Conn{in, out}}
	t.Cleanup(c.cut)
	go carry(c, in, out)
	go carry(c, out, in)
	for _, end := range []struct {
		g, other *guest
		c        net.Conn
	}{{a, b, x}, {b, a, y}} {
		if _, err := end.g.f.Link(end.other.rank, slot, end.c); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestFlowsGoOnWithoutOneOfSeveralConnections, in order, and so they do when it is
// made again under traffic, many times.
func TestFlowsGoOnWithoutOneOfSeveralConnections(t *testing.T) {
	const flows = 32
	a, b := newGuest(t, 0, 2), newGuest(t, 1, 2)
	var cables []*cable
	for slot := range MostConnections {
		cables = append(cables, lay(t, a, b, slot))
	}
	const window = 2000 // frames on the way, or else they would wait for long here
	came, stop, sent := make(chan struct{}, window), make(chan struct{}), make(chan struct{})
	for range window {
		came <- struct{}{}
	}
	go func() {
		defer close(sent)
		for i := 0; ; i++ {
			select {
			case <-came:
			case <-time.After(time.Millisecond): // some are lost
			case <-stop:
				return
			}
			if _, err := a.c.Write(udp(1, 0, i%flows, 1+i/flows, 100+i%1400)); err != nil {
				return
			}
		}
	}()
	var last [flows]int
	hear := func(enough int) { // of each flow, so many further frames
		t.Helper()
		from := last
		behind := func() bool {
			for flow := range last {
				if last[flow] < from[flow]+enough {
					return true
				}
			}
			return false
		}
		for deadline := time.Now().Add(2 * time.Minute); behind(); {
			if time.Now().After(deadline) {
				t.Fatalf("of the flows came the frames %v, expected %d after %v", last, enough, from)
			}
			raw := b.gets(time.Minute)
			if len(raw) < ethernetHeader+headerIPv4+16 {
				t.Fatalf("%d bytes came", len(raw))
			}
			select {
			case came <- struct{}{}:
			default:
			}
			flow, number := numberOf(raw)
			if number <= last[flow] {
				t.Fatalf("flow %d: frame %d came after %d", flow, number, last[flow])
			}
			last[flow] = number
		}
	}
	for round := range 2 * MostConnections {
		hear(50)
		slot := round % MostConnections
		cables[slot].cut()
		testkit.Eventually(t, 10*time.Second, func() error {
			hear(1)
			for _, g := range []*guest{a, b} {
				if p := g.f.peerTo(1 - g.rank); !p.Up || p.Connections != MostConnections-1 {
					return fmt.Errorf("the link: %+v", p)
				}
			}
			return nil
		})
		hear(50)
		cables[slot] = lay(t, a, b, slot)
	}
	close(stop)
	<-sent
}

// TestAConnectionThatIsHeldUpHoldsNoOther: the flows of the others continue, and its own
// do when it is free again.
func TestAConnectionThatIsHeldUpHoldsNoOther(t *testing.T) {
	a, b := newGuest(t, 0, 2), newGuest(t, 1, 2)
	cables := []*cable{lay(t, a, b, 0), lay(t, a, b, 1)}
	of := func(slot int) int { // a flow that is its own
		k := a.f.peers[1]
		k.mu.RLock()
		defer k.mu.RUnlock()
		for flow := range 1000 {
			if k.routes[bucketOf(udp(1, 0, flow, 0, 0))] == k.conns[slot] {
				return flow
			}
		}
		t.Fatal("no flow goes that way")
		return 0
	}
	for slot := range cables { // both have begun
		a.send(udp(1, 0, of(slot), 0, 0))
		if b.gets(time.Minute) == nil {
			t.Fatal("nothing came")
		}
	}
	held, free := of(0), of(1)
	cables[0].Lock()
	for i := range 20 {
		a.send(udp(1, 0, held, i, 1000))
		a.send(udp(1, 0, free, i, 1000))
		raw := b.gets(time.Minute)
		if raw == nil {
			t.Fatal("the other has to wait")
		}
		if flow, n := numberOf(raw); flow != free || n != i {
			t.Fatalf("frame %d of flow %d came", n, flow)
		}
	}
	cables[0].Unlock()
	for i := range 20 {
		raw := b.gets(time.Minute)
		if raw == nil {
			t.Fatal("what was held up does not come")
		}
		if flow, n := numberOf(raw); flow != held || n != i {
			t.Fatalf("frame %d of flow %d came, want %d of %d", n, flow, i, held)
		}
	}
}

// TestALinkWantsMoreConnections where several flows wait for those that it has,
// whichever end sends them, as far as they may help.
func TestALinkWantsMoreConnections(t *testing.T) {
	slot := func(g *guest, number int) net.Conn { // to one who lives, and takes nothing
		x, y := testkit.Line(t)
		t.Cleanup(func() { y.Close() })
		if _, err := g.f.Link(1-g.rank, number, x); err != nil {
			t.Fatal(err)
		}
		go func() {
			for {
				if _, err := y.Write(make([]byte, lengthSize)); err != nil {
					return
				}
				time.Sleep(beat)
			}
		}()
		return y
	}
	crowd := func(g *guest, flows int) {
		t.Helper()
		before := g.f.peerTo(1 - g.rank).Dropped
		testkit.Eventually(t, 20*time.Second, func() error {
			for i := range 100 {
				g.send(udp(1-g.rank, g.rank, i%flows, i, 60000))
			}
			if g.f.peerTo(1-g.rank).Dropped < before+100 {
				return fmt.Errorf("nothing is dropped")
			}
			return nil
		})
	}
	maker, taker := newGuest(t, 1, 2), newGuest(t, 0, 2)
	k := maker.f.peers[0]
	know := func(trip time.Duration) {
		k.mu.Lock()
		k.trip = trip
		k.mu.Unlock()
	}
	wanted := func() int { // which is there soon; that there is none is seen when none has come for a while
		select {
		case number := <-maker.f.Wanted(0):
			return number
		case <-time.After(time.Minute):
			return 0
		}
	}
	none := func() bool {
		select {
		case <-maker.f.Wanted(0):
			return false
		case <-time.After(2500 * time.Millisecond): // it is looked for each second
			return true
		}
	}
	if <-maker.f.Wanted(0) != 0 {
		t.Fatal("the first is not wanted first")
	}
	y := slot(maker, 0)
	know(longRoute)
	if crowd(maker, 1); !none() {
		t.Error("another connection is wanted for one flow")
	}
	if crowd(maker, 8); wanted() != 1 {
		t.Error("no other connection is wanted for several flows")
	}
	know(time.Nanosecond)
	if k.limit(1) != 1 || k.limit(2) != 1 || k.limit(4) != 2 || k.limit(64) != MostConnections {
		t.Errorf("near by there are %d, %d, %d and %d connections", k.limit(1), k.limit(2), k.limit(4), k.limit(64))
	}
	know(longRoute)
	slot(maker, 1)
	y.Write([]byte{0, 0, 0, signMore})
	if wanted() != 2 {
		t.Error("no other connection is wanted for the other end")
	}
	y.Write([]byte{0, 0, 0, signMore})
	if !none() {
		t.Error("another connection is wanted before the last one is there")
	}
	// Who takes connections says so.
	y = slot(taker, 0)
	crowd(taker, 8)
	time.Sleep(1500 * time.Millisecond) // until it was looked at
	heard := make(chan bool)
	go func() {
		var length [lengthSize]byte
		for {
			if _, err := io.ReadFull(y, length[:]); err != nil {
				heard <- false
				return
			}
			n := int64(binary.BigEndian.Uint32(length[:]))
			switch n {
			case signMore:
				heard <- true
				return
			case signLife, signAsk, signAnswer:
				n = 0
			case signEras:
				n = MostConnections
			}
			io.CopyN(io.Discard, y, n)
		}
	}()
	select {
	case ok := <-heard:
		if !ok {
			t.Error("the wish was not told before the end")
		}
	case <-time.After(time.Minute):
		t.Error("nothing is wished")
	}
	if len(taker.f.Wanted(1)) > 1 {
		t.Error("who takes connections wants to make some")
	}
}

// TestManyLinksHaveOneConnectionEach, at either end.
func TestManyLinksHaveOneConnectionEach(t *testing.T) {
	for _, c := range []struct {
		kind        string
		hosts, most int
	}{{Switch, 2, 4}, {Switch, 9, 4}, {Switch, 17, 2}, {Switch, 64, 1}, {Star, 64, 1}, {Tree, 64, 4}} {
		f := New(c.kind, Sockets, Place{1, c.hosts, 1}, slog.New(slog.DiscardHandler))
		if got := f.peers[0].most; got != c.most {
			t.Errorf("%s of %d hosts: %d connections, want %d", c.kind, c.hosts, got, c.most)
		}
		f.Close()
	}
}

// TestConnectionsShareFlows in equal parts, more or less, and one that goes moves only its own.
func TestConnectionsShareFlows(t *testing.T) {
	g := newGuest(t, 0, 2)
	k := g.f.peers[1]
	for slot := range MostConnections {
		x, y := testkit.Line(t)
		defer y.Close()
		go io.Copy(io.Discard, y)
		if _, err := g.f.Link(1, slot, x); err != nil {
			t.Fatal(err)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.routes
	for slot, gone := range k.conns {
		k.conns[slot] = nil
		k.deal()
		own := 0
		for b, l := range before {
			switch {
			case l == gone:
				own++
			case k.routes[b] != l:
				t.Errorf("bucket %d went from one connection to another as a third was lost", b)
			}
		}
		if fair := buckets / MostConnections; own < fair/2 || own > fair*2 {
			t.Errorf("connection %d has %d of %d buckets", slot, own, buckets)
		}
		k.conns[slot] = gone
	}
	k.deal()
}

func TestFlowsAreToldApart(t *testing.T) {
	seen := map[int]bool{}
	for flow := range 1000 {
		b := bucketOf(udp(1, 0, flow, 1, 100))
		if b != bucketOf(udp(1, 0, flow, 2, 60000)) {
			t.Fatalf("frames of flow %d are not together", flow)
		}
		seen[b] = true
	}
	if len(seen) != buckets {
		t.Errorf("a thousand flows are in %d buckets", len(seen))
	}
	for name, change := range map[string]func(f []byte){
		"hardware address": func(f []byte) { f[11]++ },
		"address":          func(f []byte) { f[ethernetHeader+19]++ },
		"port":             func(f []byte) { f[ethernetHeader+headerIPv4+3]++ },
	} {
		counts := map[int]bool{}
		f := udp(1, 0, 1, 1, 100)
		for range 256 {
			change(f)
			counts[bucketOf(f)] = true
		}
		if len(counts) < buckets/2 {
			t.Errorf("256 values of a %s are in %d buckets", name, len(counts))
		}
	}
	// A packet in pieces is one flow, whatever stands where ports would be.
	first, second := udp(1, 0, 1, 1, 100), udp(1, 0, 2, 1, 100)
	first[ethernetHeader+6] |= 0x20 // more follow
	second[ethernetHeader+7] = 100  // it begins there
	if bucketOf(first) != bucketOf(second) {
		t.Error("pieces of a packet are not together")
	}
	tagged := func(f []byte) []byte {
		return append(append(append([]byte{}, f[:12]...), 0x81, 0, 0, 5), f[12:]...)
	}
	if bucketOf(tagged(udp(1, 0, 3, 1, 100))) != bucketOf(udp(1, 0, 3, 1, 100)) {
		t.Error("a VLAN's tag hides the flow")
	}
}

func FuzzBucketOf(f *testing.F) {
	f.Add(udp(1, 0, 1, 1, 100))
	f.Add(append(make([]byte, 12), 0x86, 0xdd, 6))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if len(raw) < ethernetHeader {
			return
		}
		if b := bucketOf(raw); b < 0 || b >= buckets {
			t.Errorf("bucket %d", b)
		}
	})
}

// far has 1 MiB of a connection on the way, for 40 ms, as where a window or losses bound
// it: 26 MB/s.
func far(c *cable, to, from net.Conn) {
	defer c.cut()
	const size, delay = 64 << 10, 40 * time.Millisecond
	type parcel struct {
		data []byte
		due  time.Time
	}
	from.(*net.TCPConn).SetReadBuffer(size) //nolint:errcheck // what is not on the way waits where it comes from
	window := make(chan parcel, 1<<20/size)
	defer close(window)
	go func() {
		for p := range window {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				c.cut()
			}
		}
	}()
	for {
		data := make([]byte, size)
		n, err := from.Read(data)
		if err != nil {
			return
		}
		window <- parcel{data[:n], time.Now().Add(delay)}
	}
}

// BenchmarkLongWay sends sixteen flows over a long way, by one connection, and by as many
// as the link wants, for some seconds (-benchtime 1x).
func BenchmarkLongWay(b *testing.B) {
	for name, most := range map[string]int{"one connection": 1, "as many as are wanted": MostConnections} {
		b.Run(name, func(b *testing.B) {
			from, to := newGuest(b, 1, 2), newGuest(b, 0, 2)
			layWith(b, from, to, <-from.f.Wanted(0), far)
			done := make(chan struct{})
			defer close(done)
			const flows, window, size = 16, 50, 30000
			var came [flows]chan struct{}
			for flow := range flows {
				came[flow] = make(chan struct{}, window)
				for range window {
					came[flow] <- struct{}{}
				}
				go func() {
					for i := 0; ; i++ {
						select {
						case <-came[flow]:
						case <-time.After(200 * time.Millisecond): // all are lost
						case <-done:
							return
						}
						from.c.Write(udp(0, 1, flow, i, size))
					}
				}()
			}
			go func() {
				buf, last := make([]byte, maxFrame), [flows]int{}
				for {
					if _, err := to.c.Read(buf); err != nil {
						return
					}
					flow, number := numberOf(buf)
					for ; last[flow] < number; last[flow]++ { // also for those that are lost
						select {
						case came[flow] <- struct{}{}:
						default:
						}
					}
				}
			}()
			go func() {
				for {
					select {
					case slot := <-from.f.Wanted(0):
						if slot < most {
							layWith(b, from, to, slot, far)
						}
					case <-done:
						return
					}
				}
			}()
			time.Sleep(5 * time.Second) // until there are as many as there shall be
			got, begun := to.f.peerTo(1).ReceivedBytes, time.Now()
			time.Sleep(5 * time.Second)
			got = to.f.peerTo(1).ReceivedBytes - got
			b.ReportMetric(float64(got)/1e6/time.Since(begun).Seconds(), "MB/s")
			b.ReportMetric(float64(to.f.peerTo(1).Connections), "connections")
		})
	}
}
