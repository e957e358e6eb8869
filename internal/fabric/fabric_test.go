package fabric

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric/vhost"
	"github.com/bee-hpc/bee/internal/testkit"
)

// quiet is how long a test waits to be sure that nothing comes.
const quiet = 100 * time.Millisecond

func TestFramesFindTheirGuest(t *testing.T) {
	g := mesh(t, 4)
	for _, size := range []int{1, 46, 1500, 9000, 65280} {
		f := frame(macOf(2), macOf(0), string(bytes.Repeat([]byte("x"), size)))
		g[0].send(f)
		if got := g[2].gets(time.Minute); !bytes.Equal(got, f) {
			t.Fatalf("of %d bytes %d came", len(f), len(got))
		}
	}
	if got := g[1].gets(quiet); got != nil {
		t.Errorf("a frame for another came: %x", got[:14])
	}
}

// TestGuestsOfOneHost: three on each of two hosts, the last host with a place
// free. What is for a neighbour never takes a link.
func TestGuestsOfOneHost(t *testing.T) {
	hosts := twoOfThree(t)
	var g []*guest
	for rank := range 5 {
		g = append(g, &guest{t: t, rank: rank, f: hosts[rank/3], c: plug(t, hosts[rank/3], rank)})
	}
	if _, err := hosts[0].Attach(3); err == nil {
		t.Error("a guest of another host was attached")
	}
	for a := range g {
		for b := range g {
			if a == b {
				continue
			}
			f := frame(macOf(b), macOf(a), fmt.Sprintf("%d to %d", a, b))
			g[a].send(f)
			if got := g[b].gets(time.Minute); !bytes.Equal(got, f) {
				t.Errorf("from %d to %d came %q", a, b, got)
			}
		}
	}
	if sent := hosts[0].Stats().Peers[0].SentFrames; sent != 6 {
		t.Errorf("%d frames left the host, want those to the other's guests: 6", sent)
	}
	all := frame(mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, macOf(1), "to all")
	g[1].send(all)
	for _, rank := range []int{0, 2, 3, 4} {
		if got := g[rank].gets(time.Minute); !bytes.Equal(got, all) {
			t.Errorf("guest %d got %q", rank, got)
		}
	}
	for rank := range g {
		if got := g[rank].gets(quiet); got != nil {
			t.Errorf("guest %d got it again, or its own", rank)
		}
	}
	// One that takes nothing is in no one's way.
	big := frame(macOf(0), macOf(1), string(make([]byte, 60000)))
	testkit.Eventually(t, 20*time.Second, func() error {
		for range 100 {
			g[1].send(big)
		}
		if hosts[0].Stats().Dropped == 0 {
			return fmt.Errorf("nothing was dropped")
		}
		return nil
	})
	f := frame(macOf(2), macOf(4), "not for the sleeper")
	g[4].send(f)
	if got := g[2].gets(time.Minute); !bytes.Equal(got, f) {
		t.Error("a neighbour has to wait")
	}
}

func TestFramesForAllReachEachOnce(t *testing.T) {
	g := mesh(t, 4)
	f := frame(mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, macOf(1), "to all")
	g[1].send(f)
	for _, rank := range []int{0, 2, 3} {
		if got := g[rank].gets(time.Minute); !bytes.Equal(got, f) {
			t.Errorf("guest %d got %q", rank, got)
		}
	}
	for rank := range 4 {
		if got := g[rank].gets(quiet); got != nil {
			t.Errorf("guest %d got it again, or its own", rank)
		}
	}
}

// recorder is a guest's device that keeps what comes.
type recorder struct {
	taker
	came chan []byte
}

func (k recorder) give(b *batch) (frames, bytes int) {
	for _, f := range b.frames {
		k.came <- f.AppendTo(nil)
	}
	return k.taker.give(b)
}

func (k recorder) offer(b *batch) (frames, bytes int) { return k.give(b) }

// TestWhatGuestsLeaveToBeDoneGoesAlong: with rings, the header before a frame, which says
// what is left to be summed and cut, comes out of a link as it went in.
func TestWhatGuestsLeaveToBeDoneGoesAlong(t *testing.T) {
	came := make(chan []byte, 1)
	var hosts []*Fabric
	x, y := testkit.Line(t)
	for i, c := range []net.Conn{x, y} {
		f := New(Switch, Rings, Place{i, 2, 1}, slog.New(slog.DiscardHandler))
		t.Cleanup(f.Close)
		p, err := f.newPort(i)
		if err != nil {
			t.Fatal(err)
		}
		p.guest = recorder{came: came}
		if err := f.add(p); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Link(1-i, 0, c); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, f)
	}
	for _, size := range []int{46, 1500, 9000, 65000} {
		want := append([]byte{1, 1, 54, 0, 0xb4, 5, 34, 0, 16, 0}, frame(macOf(1), macOf(0), strings.Repeat("x", size))...)
		hosts[0].ports[0].Load().takeAll()([]vhost.Frame{{Head: bytes.Clone(want)}})
		select {
		case got := <-came:
			if !bytes.Equal(got, want) {
				t.Errorf("of a header and %d bytes came %d bytes, which begin %x", size, len(got), got[:min(len(got), 24)])
			}
		case <-time.After(time.Minute):
			t.Fatalf("nothing came of %d bytes", size)
		}
	}
}

// TestEveryKindReachesAll sends from each guest to each, and to all at once.
func TestEveryKindReachesAll(t *testing.T) {
	for _, kind := range []string{Switch, Star, Tree} {
		t.Run(kind, func(t *testing.T) {
			const size = 8
			g := fabricOf(t, kind, size)
			foreign := mac{0x52, 0x54, 0, 1, 2, 3} // behind guest 7
			g[7].send(frame(mac{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, foreign, "hello"))
			for rank := range size - 1 {
				if g[rank].gets(time.Minute) == nil {
					t.Errorf("guest %d did not hear of it", rank)
				}
			}
			for a := range size {
				for b := range size {
					if a == b {
						continue
					}
					f := frame(macOf(b), macOf(a), fmt.Sprintf("%d to %d", a, b))
					g[a].send(f)
					if got := g[b].gets(time.Minute); !bytes.Equal(got, f) {
						t.Errorf("from %d to %d came %q", a, b, got)
					}
				}
				if a == 7 {
					continue
				}
				f := frame(foreign, macOf(a), "to the foreign one")
				g[a].send(f)
				if got := g[7].gets(time.Minute); !bytes.Equal(got, f) {
					t.Errorf("from %d to a learned address came %q", a, got)
				}
			}
			for rank := range size {
				if got := g[rank].gets(quiet); got != nil {
					t.Errorf("guest %d got what was not for it: %q", rank, got)
				}
			}
		})
	}
}

func TestMulticastIsFoundOut(t *testing.T) {
	group := Group("run")
	if !group.Addr().IsMulticast() || group != Group("run") || group == Group("other") {
		t.Errorf("groups %v and %v", group, Group("other"))
	}
	const first, second = "10.9.1.1", "10.9.2.1"
	if os.Getenv(insideVar) == "" {
		// Two networks, from which each reaches the other, but with nobody who routes multicast.
		const networks = "ip link set lo up; for n in 1 2; do ip link add a$n type veth peer name b$n; ip addr add 10.9.$n.1/24 dev a$n; ip link set a$n up; ip link set b$n up; done; ip route add 239.0.0.0/8 dev a1; "
		testkit.RequireTool(t, "ip")
		c := exec.Command("unshare", "--user", "--map-root-user", "--net", "sh", "-ec", networks+`exec "$0" -test.v -test.run '^TestMulticastIsFoundOut$'`, os.Args[0])
		c.Env = append(os.Environ(), insideVar+"=1")
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go Beacon(ctx, "run", first) //nolint:errcheck // who hears nothing shows it
	if err := Hear(t.Context(), "run", first); err != nil {
		t.Errorf("a network that carries it: %v", err)
	}
	if err := Hear(t.Context(), "run", second); core.KindOf(err) != core.Unsupported || !strings.Contains(err.Error(), "a2") || !strings.Contains(core.Remedy(err), "fabric: switch") {
		t.Errorf("a network that does not carry it: %v", err)
	}
}

// insideVar reports to a test that it runs in networks of its own.
const insideVar = "BEE_TEST_IN_NETWORKS"

func TestForeignAddressesAreLearned(t *testing.T) {
	g := mesh(t, 3)
	foreign := mac{0x52, 0x54, 0, 1, 2, 3} // of a bridge in guest 2
	f := frame(foreign, macOf(0), "who is it")
	g[0].send(f)
	for _, rank := range []int{1, 2} {
		if got := g[rank].gets(time.Minute); got == nil {
			t.Errorf("guest %d was not asked", rank)
		}
	}
	g[2].send(frame(macOf(0), foreign, "me"))
	if g[0].gets(time.Minute) == nil {
		t.Fatal("no answer")
	}
	g[0].send(f)
	if g[2].gets(time.Minute) == nil || g[1].gets(quiet) != nil {
		t.Error("the address was not learned")
	}
}

func TestAddressesAreAnswered(t *testing.T) {
	g := mesh(t, 2)
	question := make([]byte, arpLength)
	own := macOf(0)
	copy(question, bytes.Repeat([]byte{0xff}, 6))
	copy(question[6:], own[:])
	binary.BigEndian.PutUint16(question[12:], arpType)
	copy(question[14:], []byte{0, 1, 8, 0, 6, 4, 0, 1})
	copy(question[22:], own[:])
	copy(question[28:], Address(0).AsSlice())
	copy(question[38:], Address(1).AsSlice())
	g[0].send(question)
	answer := g[0].gets(time.Minute)
	want := macOf(1)
	if len(answer) != arpLength || !bytes.Equal(answer[22:28], want[:]) || !bytes.Equal(answer[28:32], Address(1).AsSlice()) || !bytes.Equal(answer[32:38], own[:]) {
		t.Errorf("answer %x", answer)
	}
	if g[1].gets(quiet) != nil {
		t.Error("the other guest was asked as well")
	}
	copy(question[38:], Address(0).AsSlice()) // for its own, as to find out whether it is taken
	g[0].send(question)
	if g[0].gets(quiet) != nil {
		t.Error("its own address was answered")
	}
}

func TestABrokenLinkEndsAndHeals(t *testing.T) {
	g := mesh(t, 2)
	x, y := testkit.Line(t)
	l, err := g[0].f.Link(1, 0, x)
	if err != nil {
		t.Fatal(err)
	}
	y.Close()
	select {
	case <-l.Done():
	case <-time.After(time.Minute):
		t.Fatal("the end was not noticed")
	}
	f := frame(macOf(1), macOf(0), "again")
	g[0].send(f)
	testkit.Eventually(t, 20*time.Second, func() error {
		if p := g[0].f.peerTo(1); p.Up || p.Dropped != 1 {
			return fmt.Errorf("over a broken link: %+v", p)
		}
		return nil
	})
	joinGuests(t, g[0], g[1])
	for range 2 {
		g[0].send(f)
		if got := g[1].gets(time.Minute); !bytes.Equal(got, f) {
			t.Errorf("got %q", got)
		}
		joinGuests(t, g[0], g[1])
	}
	if p := g[0].f.peerTo(1); p.SentFrames != 2 || p.SentBytes != int64(2*len(f)) {
		t.Errorf("over several connections: %+v", p)
	}
}

// TestTrafficIsCounted by guest and by link, and how much it is in a second.
func TestTrafficIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Tree, Rings, Place{1, 5, 2}, slog.New(slog.DiscardHandler))
		defer f.Close()
		for rank := range 2 {
			p, err := f.newPort(2 + rank)
			if err != nil {
				t.Fatal(err)
			}
			p.guest = taker{}
			if err := f.add(p); err != nil {
				t.Fatal(err)
			}
		}
		x, y := net.Pipe()
		other := New(Tree, Rings, Place{3, 5, 2}, f.log)
		defer other.Close()
		if _, err := f.Link(3, 0, x); err != nil {
			t.Fatal(err)
		}
		if _, err := other.Link(1, 0, y); err != nil {
			t.Fatal(err)
		}
		const size = 1000
		send := func(to, from int) {
			raw := append(make([]byte, f.header), frame(macOf(to), macOf(from), string(make([]byte, size-ethernetHeader)))...)
			f.ports[from-2].Load().takeAll()([]vhost.Frame{{Head: raw}})
		}
		time.Sleep(time.Second / 2)
		for range 3 {
			send(2, 3)
			send(6, 2)
			send(0, 2) // to whom there is no link now
		}
		time.Sleep(time.Second)
		s := f.Stats()
		if len(s.Ports) != 2 || len(s.Peers) != 3 {
			t.Fatalf("%d ports and %d links: %+v", len(s.Ports), len(s.Peers), s)
		}
		for i, want := range []Traffic{
			{FromFrames: 6, FromBytes: 6 * size, FromFramesPerSecond: 6, FromBytesPerSecond: 6 * size, ToFrames: 3, ToBytes: 3 * size, ToFramesPerSecond: 3, ToBytesPerSecond: 3 * size},
			{FromFrames: 3, FromBytes: 3 * size, FromFramesPerSecond: 3, FromBytesPerSecond: 3 * size},
		} {
			if got := s.Ports[i]; got.Rank != 2+i || got.Traffic != want {
				t.Errorf("guest %d: %+v", 2+i, got)
			}
		}
		length := int64(f.header + size)
		for i, want := range []Peer{{Rank: 0, Dropped: 3}, {Rank: 6, Up: true, Connections: 1, Unencrypted: 1, SentFrames: 3, SentBytes: 3 * length, SentFramesPerSecond: 3, SentBytesPerSecond: 3 * length}, {Rank: 8}} {
			if s.Peers[i] != want {
				t.Errorf("got %+v, want %+v", s.Peers[i], want)
			}
		}
		time.Sleep(time.Second)
		if s := f.Stats(); s.FromBytes != 9*size || s.FromBytesPerSecond != 0 || s.Peers[1].SentBytesPerSecond != 0 {
			t.Errorf("a second later: %+v", s)
		}
		if s := other.Stats(); s.Dropped != 3 || s.Peers[0].ReceivedBytes != 3*length {
			t.Errorf("of the other, whose guest is not there: %+v", s)
		}
	})
}

// TestASilentLinkEnds: an other end that hangs is as bad as one that is gone, and
// one that makes itself heard lives.
func TestASilentLinkEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Switch, Sockets, Place{0, 2, 1}, slog.New(slog.DiscardHandler))
		defer f.Close()
		x, y := net.Pipe()
		defer y.Close()
		l, err := f.Link(1, 0, x)
		if err != nil {
			t.Fatal(err)
		}
		go io.Copy(io.Discard, y)
		for range 10 {
			time.Sleep(silence - beat) // as when beats are late
			y.Write(make([]byte, lengthSize))
		}
		last := time.Now()
		<-l.Done()
		if took := time.Since(last); took < silence || took > silence+beat || !l.Heard().Equal(last) {
			t.Errorf("it counted as dead %v after it was heard, at %v, %v later", took, l.Heard(), l.Heard().Sub(last))
		}
	})
}

// TestAGuestThatTakesNothing: what is for it is dropped and counted, at its senders
// or, where its switch passes on what is for others, there; they do not wait.
func TestAGuestThatTakesNothing(t *testing.T) {
	for kind, who := range map[string]struct{ size, sleeper, from, to int }{
		Switch: {3, 1, 0, 2}, Star: {3, 0, 1, 2}, Tree: {4, 1, 3, 0},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			g := fabricOf(t, kind, who.size)
			big := frame(macOf(who.sleeper), macOf(who.from), string(make([]byte, 60000)))
			at, sleeper := g[who.from].f, g[who.sleeper].f
			testkit.Eventually(t, 20*time.Second, func() error {
				for range 100 {
					g[who.from].send(big)
				}
				if dropped := sleeper.Stats().Dropped; kind != Switch && dropped == 0 || kind == Switch && at.peerTo(who.sleeper).Dropped == 0 {
					return fmt.Errorf("nothing was dropped")
				}
				return nil
			})
			f := frame(macOf(who.to), macOf(who.from), "not for the sleeper")
			g[who.from].send(f)
			if got := g[who.to].gets(time.Minute); !bytes.Equal(got, f) {
				t.Error("another guest has to wait")
			}
			time.Sleep(silence + 2*beat) // as long as a dead link would take to be noticed
			if !at.peerTo(who.sleeper).Up || !sleeper.peerTo(who.from).Up {
				t.Error("a guest's own slowness ended its host's links")
			}
		})
	}
}

// TestManySlowLinksShareTheMemory: what waits for many hosts that take nothing
// is bounded, and released when they are gone.
func TestManySlowLinksShareTheMemory(t *testing.T) {
	const hosts = 64
	f := New(Switch, Sockets, Place{0, hosts, 1}, slog.New(slog.DiscardHandler))
	defer f.Close()
	c := plug(t, f, 0)
	defer c.Close()
	var ends []net.Conn
	for host := 1; host < hosts; host++ {
		x, y := testkit.Line(t)
		if _, err := f.Link(host, 0, x); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, y)
		go func() { // it lives, and takes nothing
			for {
				if _, err := y.Write(make([]byte, lengthSize)); err != nil {
					return
				}
				time.Sleep(beat) // as a living end does
			}
		}()
	}
	dropped := func() (n int64) {
		for _, p := range f.Stats().Peers {
			n += p.Dropped
		}
		return n
	}
	held := func() int {
		f.store.mu.Lock()
		defer f.store.mu.Unlock()
		return f.store.held
	}
	most := 0
	testkit.Eventually(t, 60*time.Second, func() error {
		for range 50 {
			for host := 1; host < hosts; host++ {
				c.Write(frame(macOf(host), macOf(0), string(make([]byte, 60000))))
			}
			most = max(most, held())
		}
		if dropped() < 1000 {
			return fmt.Errorf("%d frames dropped", dropped())
		}
		return nil
	})
	if limit := storeChunks + leastChunks*hosts; most > limit {
		t.Errorf("%d chunks waited, more than %d", most, limit)
	}
	for _, y := range ends {
		y.Close()
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		if held := held(); held != 0 {
			return fmt.Errorf("%d chunks are held for nobody", held)
		}
		f.store.mu.Lock()
		defer f.store.mu.Unlock()
		if spare := len(f.store.spare); spare > storeChunks {
			return fmt.Errorf("%d chunks are kept for nobody, more than %d", spare, storeChunks)
		}
		return nil
	})
}

func TestBrokenFramesEndTheLink(t *testing.T) {
	for name, raw := range map[string][]byte{"too long": {0xff, 0, 0, 0}, "too short": {0, 0, 0, 3, 1, 2, 3}} {
		g := newGuest(t, 0, 2)
		x, y := testkit.Line(t)
		l, err := g.f.Link(1, 0, x)
		if err != nil {
			t.Fatal(err)
		}
		y.Write(raw)
		select {
		case <-l.Done():
		case <-time.After(time.Minute):
			t.Errorf("%s: taken", name)
		}
		y.Close()
	}
}

func TestAddresses(t *testing.T) {
	for _, rank := range []int{0, 1, 254, 255, 256, 60000} {
		if got := macOf(rank).rank(); got != rank {
			t.Errorf("rank %d gives %d", rank, got)
		}
		if got := rankOfAddress(Address(rank).AsSlice()); got != rank || !Network().Contains(Address(rank)) {
			t.Errorf("rank %d has address %v", rank, Address(rank))
		}
	}
}

func FuzzAnswerARP(f *testing.F) {
	f.Add(make([]byte, arpLength))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if a := answerARP(raw, 0); a != nil && len(a) != arpLength {
			t.Errorf("an answer of %d bytes", len(a))
		}
	})
}

// BenchmarkSwitch sends frames from one port through two switches to another.
func BenchmarkSwitch(b *testing.B) {
	for _, size := range []int{1500, 65280} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			log := slog.New(slog.DiscardHandler)
			one, two := New(Switch, Sockets, Place{0, 2, 1}, log), New(Switch, Sockets, Place{1, 2, 1}, log)
			defer one.Close()
			defer two.Close()
			x, y := testkit.Line(b)
			if _, err := one.Link(1, 0, x); err != nil {
				b.Fatal(err)
			}
			if _, err := two.Link(0, 0, y); err != nil {
				b.Fatal(err)
			}
			in, out := plug(b, one, 0), plug(b, two, 1)
			f := frame(macOf(1), macOf(0), string(make([]byte, size)))
			b.SetBytes(int64(len(f)))
			done := make(chan int64)
			go func() {
				buf := make([]byte, maxFrame)
				var got int64
				for {
					out.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
					n, err := out.Read(buf)
					if err != nil {
						done <- got
						return
					}
					got += int64(n)
				}
			}()
			b.ResetTimer()
			for range b.N {
				in.Write(f)
			}
			b.StopTimer()
			got := <-done
			b.ReportMetric(100*float64(got)/float64(int64(b.N)*int64(len(f))), "%arrived")
		})
	}
}

func plug(t testing.TB, f *Fabric, rank int) net.Conn {
	t.Helper()
	file, err := f.Attach(rank)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
