package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
)

// cable is a way between two hosts that can be cut, or go silent.
type cable struct {
	to string

	mu     sync.Mutex
	down   bool
	silent bool
	conns  []net.Conn
	passed bytes.Buffer
}

func newCable(t *testing.T, to string) (*cable, string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &cable{to: to}
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			go c.carry(in)
		}
	}()
	return c, l.Addr().String()
}

func (c *cable) carry(in net.Conn) {
	defer in.Close()
	out, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer out.Close()
	c.mu.Lock()
	if c.down {
		c.mu.Unlock()
		return
	}
	c.silent = false
	c.conns = append(c.conns, in, out)
	c.mu.Unlock()
	ended := make(chan struct{}, 2)
	for _, route := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			defer func() { ended <- struct{}{} }()
			buf := make([]byte, 64<<10)
			for {
				n, err := route[0].Read(buf)
				if err != nil {
					return
				}
				c.mu.Lock()
				silent := c.silent
				c.passed.Write(buf[:n])
				c.mu.Unlock()
				if silent {
					continue
				}
				if _, err := route[1].Write(buf[:n]); err != nil {
					return
				}
			}
		}()
	}
	<-ended
}

// cut ends what goes over the cable now, and keeps it so if asked.
func (c *cable) cut(down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = down
	for _, conn := range c.conns {
		conn.Close()
	}
	c.conns = nil
}

// mute swallows what goes over the cable from now on, and lets nothing new in.
func (c *cable) mute() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent, c.down = true, true
}

// hush swallows what goes over the connections of now, which stay.
func (c *cable) hush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silent = true
}

// saw reports whether someone who listens there saw a word pass.
func (c *cable) saw(word string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return bytes.Contains(c.passed.Bytes(), []byte(word))
}

// switches are the parts of nodes that join guests, with cables between them.
type switches struct {
	t        *testing.T
	addrs    []string
	reported []*reports // by rank
	nodes    []*node
	guests   []net.Conn
	cables   map[[2]int]*cable
}

func newSwitches(t *testing.T, kind string, size int) *switches {
	t.Helper()
	return newSwitchesOf(t, plan.VM{Fabric: kind}, size)
}

func newSwitchesOf(t *testing.T, vm plan.VM, size int) *switches {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	authority, err := wire.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	s := &switches{t: t, cables: map[[2]int]*cable{}}
	p := plan.Plan{VM: &vm}
	for rank := range size {
		cert, key, err := authority.Issue(plan.NodeName(rank))
		if err != nil {
			t.Fatal(err)
		}
		identity, err := wire.NewIdentity(authority.Certificate(), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		c := plan.Config{Rank: rank, Size: size, Host: core.Host{Name: fmt.Sprintf("host%d", rank)}}
		n := newNode(ctx, c, Options{Log: slog.New(slog.DiscardHandler), hostGroup: newHostGroup()}, identity)
		said := &reports{}
		n.links.report, s.reported = said.add, append(s.reported, said)
		if n.accept.server = n.newServer(); rank == 0 { // it leads links around, as a head
			rpc.HandleStream(n.accept.server, peercall.CallCarry, n.pool.Carry)
		}
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go n.accept.acceptPeers(ctx, l)
		s.addrs = append(s.addrs, l.Addr().String())
		s.nodes = append(s.nodes, n)
	}
	for rank, n := range s.nodes {
		members := make([]peercall.Member, size)
		for other := range size {
			c, addr := newCable(t, s.addrs[other])
			s.cables[[2]int{rank, other}] = c
			members[other] = peercall.Member{Rank: other, Name: fmt.Sprintf("host%d", other), Addr: addr}
		}
		n.known.learn(p, members, peercall.Network{})
	}
	for rank, n := range s.nodes {
		if err := n.links.join(&p); err != nil {
			t.Fatal(err)
		}
		file, err := n.links.fabric.Attach(rank)
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.FileConn(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		s.guests = append(s.guests, c)
		t.Cleanup(func() { n.links.leave(); c.Close() })
	}
	return s
}

// frame is one from a guest to another.
func guestFrame(from, to int, payload string) []byte {
	address := func(rank int) []byte {
		m, _ := net.ParseMAC(fabric.MAC(rank))
		return m
	}
	return append(append(append(address(to), address(from)...), 8, 0), payload...)
}

// toMend is how soon a dead link is whole again, or people are notified of it, on a machine that is
// busy: 2 s on another one, as TestAnOutageIsToldInTime holds.
const toMend = 10 * time.Second

// reach waits until each guest hears each, with traffic on all the time.
func (s *switches) reach(word string) { s.t.Helper(); s.reachWithin(30*time.Second, word) }

func (s *switches) reachWithin(within time.Duration, word string) time.Duration {
	s.t.Helper()
	begun := time.Now()
	size := len(s.guests)
	heard := make([]map[int]bool, size)
	for i := range heard {
		heard[i] = map[int]bool{i: true}
	}
	buf := make([]byte, 1<<16)
	testkit.Eventually(s.t, within, func() error {
		for from, g := range s.guests {
			for to := range size {
				if from != to {
					g.Write(guestFrame(from, to, fmt.Sprintf("%s %d", word, from)))
				}
			}
		}
		for to, g := range s.guests {
			for {
				g.SetReadDeadline(time.Now().Add(time.Millisecond))
				n, err := g.Read(buf)
				if err != nil {
					break
				}
				var from int
				if text := string(buf[14:n]); strings.HasPrefix(text, word+" ") {
					fmt.Sscan(text[len(word)+1:], &from) //nolint:errcheck // who is heard is looked at
					heard[to][from] = true
				}
			}
		}
		for to := range heard {
			for from := range size {
				if !heard[to][from] {
					return fmt.Errorf("guest %d has not heard guest %d", to, from)
				}
			}
		}
		return nil
	})
	return time.Since(begun)
}

// TestLinksMend cuts every connection between the switches, and has others go
// silent, under traffic.
func TestLinksMend(t *testing.T) {
	for name, vm := range map[string]plan.VM{"switch": {Fabric: fabric.Switch}, "star": {Fabric: fabric.Star}, "tree": {Fabric: fabric.Tree}, "switch in clear": {Fabric: fabric.Switch, Encryption: plan.EncryptionNone}} {
		t.Run(name, func(t *testing.T) {
			s := newSwitchesOf(t, vm, 5)
			s.reach("first")
			for _, c := range s.cables {
				c.cut(false)
			}
			t.Logf("whole again %v after every connection was cut", s.reachWithin(toMend, "cut"))
			for _, c := range s.cables {
				c.hush()
			}
			t.Logf("whole again %v after every connection went silent", s.reachWithin(toMend, "hushed"))
		})
	}
}

// TestAWayThatStaysBrokenIsTold: with whom it cuts off, and when it is whole.
func TestAWayThatStaysBrokenIsTold(t *testing.T) {
	s := newSwitches(t, fabric.Tree, 5)
	s.reach("first")
	inner := s.reported[1] // of 3 and 4; it keeps the link to 0
	heard := 0
	printed := func(within time.Duration, all ...string) {
		t.Helper()
		testkit.Eventually(t, within, func() error {
			for i, e := range inner.all()[heard:] {
				if !slices.ContainsFunc(all, func(part string) bool { return !strings.Contains(e.text, part) }) {
					heard += i + 1
					return nil
				}
			}
			return fmt.Errorf("nobody says %q: %+v", all, inner.all()[heard:])
		})
	}
	route := s.cables[[2]int{1, 0}]
	for name, breaks := range map[string]func(){"cut": func() { route.cut(true) }, "silent": route.mute} {
		begun := time.Now()
		breaks()
		printed(toMend, "broken between host1 and host0", "cannot reach host1, host3, host4")
		t.Logf("told %v after it was %s", time.Since(begun), name)
		route.cut(false)
		printed(20*time.Second, "between host1 and host0 is whole again")
		s.reach("again after it was " + name)
	}
}

// TestWhoHasNoSwitchSaysWhy, and what has one.
func TestWhoHasNoSwitchSaysWhy(t *testing.T) {
	for _, kind := range []string{fabric.Multicast, fabric.None} {
		n := newNode(t.Context(), plan.Config{Size: 2}, Options{}, nil)
		n.known.learn(plan.Plan{VM: &plan.VM{Fabric: kind}}, nil, peercall.Network{})
		if _, err := n.links.stats(); err == nil || !strings.Contains(core.Remedy(err), "fabric: ") {
			t.Errorf("%s: %v, %s", kind, err, core.Remedy(err))
		} else {
			testkit.Wording(t, kind, testkit.ErrorText(err))
		}
	}
}

// TestAnOutageIsToldInTime counts from when the other was heard last, and says
// nothing of a way that is there again sooner.
func TestAnOutageIsToldInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, said := newNode(t.Context(), plan.Config{Size: 2, Host: core.Host{Name: "a"}}, Options{}, nil), &reports{}
		n.known.learn(plan.Plan{}, []peercall.Member{{Name: "a"}, {Name: "b"}}, peercall.Network{})
		n.links.report = said.add
		o := outage{links: n.links, host: 1, linked: func() bool { return false }}
		o.note(errors.New("not as far yet"))
		time.Sleep(time.Hour)
		o.over("")
		heard := time.Now()
		time.Sleep(time.Second)
		o.begin(heard, errors.New("silent"))
		time.Sleep(700 * time.Millisecond)
		o.over("")
		time.Sleep(time.Hour)
		if len(said.all()) > 0 {
			t.Errorf("the history has what was mended: %+v", said.all())
		}
		heard = time.Now()
		time.Sleep(1250 * time.Millisecond) // as long as it takes to notice
		o.begin(heard, errors.New("silent"))
		o.note(errors.New("no route"))
		time.Sleep(time.Until(heard.Add(10 * time.Second)))
		o.over(", by way of c")
		synctest.Wait()
		if len(said.all()) != 2 {
			t.Fatalf("the history has %+v", said.all())
		}
		testkit.Wording(t, "it broke", said.all()[0].text)
		testkit.Wording(t, "it is whole again", said.all()[1].text)
		if took := said.all()[0].at.Sub(heard); took > 2*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// goAround has nodes 3 and 1 of a tree not reach each other any more.
func (s *switches) goAround() {
	s.t.Helper()
	s.cables[[2]int{3, 1}].cut(true)
	s.reach("around")
}

// TestALinkIsLedByTheHead where two hosts do not reach each other any more, and goes
// its own way again when that breaks.
func TestALinkIsLedByTheHead(t *testing.T) {
	s := newSwitches(t, fabric.Tree, 5)
	s.reach("first")
	s.goAround()
	s.cables[[2]int{3, 1}].cut(false)
	s.cables[[2]int{3, 0}].cut(true)
	s.reach("direct")
}

// inClear is how many connections of the link between two nodes' switches are in clear
// at the one's end, and how many it has.
func (s *switches) inClear(from, to int) (inClear, all int) {
	for _, p := range s.nodes[from].links.fabric.Stats().Peers {
		if p.Rank == to {
			inClear, all = p.Unencrypted, p.Connections
		}
	}
	return inClear, all
}

// TestLinksAreInClearOnlyWhenAskedFor: someone who listens reads what guests send, or
// does not.
func TestLinksAreInClearOnlyWhenAskedFor(t *testing.T) {
	for encryption, want := range map[string]bool{"": false, "tls": false, plan.EncryptionNone: true} {
		t.Run("encryption "+encryption, func(t *testing.T) {
			s := newSwitchesOf(t, plan.VM{Fabric: fabric.Switch, Encryption: encryption}, 3)
			s.reach("overheard")
			for from := range 3 {
				for to := range from {
					if got := s.cables[[2]int{from, to}].saw("overheard"); got != want {
						t.Errorf("what passes between %d and %d is read by others: %v", from, to, got)
					}
					for _, ends := range [][2]int{{from, to}, {to, from}} {
						if n, all := s.inClear(ends[0], ends[1]); all != 1 || (n == 1) != want {
							t.Errorf("node %d says of its link to %d that %d of %d connections are in clear", ends[0], ends[1], n, all)
						}
					}
				}
			}
		})
	}
}

// TestALinkInClearThatIsLedIsEncrypted: who leads it is to see nothing of what passes.
func TestALinkInClearThatIsLedIsEncrypted(t *testing.T) {
	s := newSwitchesOf(t, plan.VM{Fabric: fabric.Tree, Encryption: plan.EncryptionNone}, 5)
	s.reach("first")
	s.goAround()
	for _, ends := range [][2]int{{3, 1}, {1, 3}} {
		if n, all := s.inClear(ends[0], ends[1]); n != 0 || all != 1 {
			t.Errorf("node %d says of its link to %d that %d of %d connections are in clear", ends[0], ends[1], n, all)
		}
	}
}

// TestNoStrangerJoinsALinkInClear: nobody without the run's keys, whatever he says, and
// nobody who has them but wants a link in clear where the run has none.
func TestNoStrangerJoinsALinkInClear(t *testing.T) {
	s := newSwitchesOf(t, plan.VM{Fabric: fabric.Switch, Encryption: plan.EncryptionNone}, 3)
	s.reach("first")
	strange := newSwitchesOf(t, plan.VM{Fabric: fabric.Switch, Encryption: plan.EncryptionNone}, 3)
	encrypted := newSwitches(t, fabric.Switch, 3)
	encrypted.reach("first")
	frame := guestFrame(2, 0, "from a stranger")
	frame = append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	join := map[string]func(ctx context.Context) (net.Conn, error){
		"with other keys": func(ctx context.Context) (net.Conn, error) {
			return strange.nodes[2].links.dialDirect(ctx, s.addrs[0], 0, 0)
		},
		"without any": func(ctx context.Context) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", s.addrs[0])
		},
		"where links are encrypted": func(ctx context.Context) (net.Conn, error) {
			secure, err := encrypted.nodes[2].pool.dial(ctx, encrypted.addrs[0], 0, purposesOf(forClear)[0])
			if err != nil {
				return nil, err
			}
			return secure.Clear(ctx)
		},
	}
	for name, dial := range join {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			c, err := dial(ctx)
			if err != nil {
				return // refused
			}
			defer c.Close()
			c.Write(append([]byte("c"), frame...))
			c.SetDeadline(time.Now().Add(time.Minute))
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays")
			}
		})
	}
	for _, of := range []*switches{s, encrypted} {
		of.guests[0].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		for buf := make([]byte, 1<<16); ; {
			n, err := of.guests[0].Read(buf)
			if err != nil {
				break
			}
			if bytes.Contains(buf[:n], []byte("stranger")) {
				t.Error("a guest got a frame of the stranger's")
			}
		}
	}
}

// report is something that a node reported to the user.
type report struct {
	at   time.Time
	text string
}

// reports are those of one node.
type reports struct {
	mu   sync.Mutex
	list []report
}

func (r *reports) add(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.list = append(r.list, report{time.Now(), text})
}

func (r *reports) all() []report {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.list)
}
