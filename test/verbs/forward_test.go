package verbs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/testkit"
)

// machines are two brokers, as of two machines, with a port each.
type machines struct {
	host
	cut   func() // ends the link between them, for good
	cable *cable
}

// cable connects two brokers while it is plugged in.
type cable struct {
	t       *testing.T
	ctx     context.Context
	servers [2]*server.Server
	wanted  chan struct{}
	serving sync.WaitGroup

	mu      sync.Mutex
	plugged bool
	conns   []net.Conn // of connections since the cable was pulled: of two that begin, either may be used
	made    int        // connections
}

// connect makes a connection where that is asked for, and the cable is plugged in.
func (c *cable) connect() {
	for {
		select {
		case <-c.wanted:
		case <-c.ctx.Done():
			return
		}
		c.mu.Lock()
		if c.plugged && !c.servers[0].Linked(1) && !c.servers[1].Linked(0) {
			if err := c.join(); err != nil {
				c.t.Errorf("connect two brokers: %v", err)
			}
		}
		c.mu.Unlock()
	}
}

func (c *cable) join() error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	var conns [2]net.Conn
	if conns[1], err = net.Dial("tcp4", listener.Addr().String()); err != nil {
		return err
	}
	if conns[0], err = listener.Accept(); err != nil {
		return err
	}
	c.conns = append(c.conns, conns[:]...)
	c.made++
	for i, s := range c.servers {
		c.serving.Go(func() {
			c.t.Logf("the connection of broker %d has ended: %v", i, s.Serve(c.ctx, conns[i], 1-i))
		})
	}
	return nil
}

// want asks for a connection.
func (c *cable) want(int) {
	select {
	case c.wanted <- struct{}{}:
	default:
	}
}

// plug plugs the cable in, or pulls it.
func (c *cable) plug(in bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.plugged = in; !in {
		for _, conn := range c.conns {
			conn.Close()
		}
		c.conns = nil
	}
	c.want(0)
}

func newMachines(t *testing.T) machines {
	l := built(t)
	h := host{library: filepath.Join(shortDir(t), "verbs.so")}
	if err := core.WriteProgram(h.library, l.File, 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	c := &cable{t: t, ctx: ctx, wanted: make(chan struct{}, 1), plugged: true}
	for i := range c.servers {
		s := server.New(l.Build, slog.New(slog.NewTextHandler(t.Output(), nil)), nil)
		c.servers[i] = s
		h.listen(t, s, i)
		m := server.Machines{
			Own: []int{i}, Size: len(c.servers), Address: portAddress, Want: c.want, Together: func(int, int) bool { return false },
			Rank: func(lid uint16, global bool, gid [16]byte) (int, bool) {
				rank := int(lid) - 1
				if global {
					rank = int(gid[15]) - 1
				}
				return rank, rank == 0 || rank == 1
			},
			Named: func(ip netip.Addr) (int, bool) {
				rank := slices.IndexFunc([]int{0, 1}, func(rank int) bool { return portAddress(rank).IPs[0] == ip })
				return rank, rank >= 0
			},
		}
		if err := s.Forward(m); err != nil {
			t.Fatal(err)
		}
	}
	connecting := make(chan struct{})
	go func() {
		defer close(connecting)
		c.connect()
	}()
	t.Cleanup(func() {
		cut()
		<-connecting
		c.serving.Wait()
		for _, s := range c.servers {
			s.Close()
		}
	})
	c.want(0)
	testkit.Eventually(t, 20*time.Second, func() error {
		for i, s := range c.servers {
			if !s.Linked(1 - i) {
				return errors.New("the brokers are not linked")
			}
		}
		return nil
	})
	return machines{h, cut, c}
}

func TestStockProgramsBetweenMachines(t *testing.T) {
	m := newMachines(t)
	m.all(t, stock)
	t.Cleanup(func() {
		if s := m.ports[1].Statistics(); !t.Failed() && (s.Forwarded == 0 || s.Counters[message.CountDirectBytes] != 0) {
			t.Errorf("%d bytes were forwarded and %d copied directly", s.Forwarded, s.Counters[message.CountDirectBytes])
		}
	})
}

func TestStockProgramsOnMemoryOfFilesBetweenMachines(t *testing.T) {
	newMachines(t).all(t, staged, "--mmap=buffer")
}

// TestLossBetweenMachines: a program whose peer is killed, or whose link breaks, ends with an error.
func TestLossBetweenMachines(t *testing.T) {
	for _, line := range lost {
		for _, cut := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/%t", strings.ReplaceAll(line, " ", "_"), cut), func(t *testing.T) {
				t.Parallel()
				m := newMachines(t)
				begun := func() bool { return m.ports[0].Statistics().Forwarded+m.ports[1].Statistics().Forwarded >= 1<<20 }
				m.loses(t, line, 30*time.Second, begun, func(victim *service) {
					if cut {
						m.cut()
					} else {
						victim.Process.Kill()
					}
				})
			})
		}
	}
}

// TestBreaksBetweenMachines: programs do not notice that the connection of their machines breaks again and again.
func TestBreaksBetweenMachines(t *testing.T) {
	m := newMachines(t)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				m.cable.plug(false)
				m.cable.plug(true)
			}
		}
	}()
	t.Run("programs", func(t *testing.T) {
		m.all(t, []string{"ibv_rc_pingpong -c -n 3000", "ib_write_bw -n 2000", "ib_read_bw -n 2000", "ib_send_bw -n 2000", "ib_send_bw -r 100 -q 4 --use-srq -n 500", "ib_atomic_bw -n 2000"})
		t.Run("rping", func(t *testing.T) {
			t.Parallel()
			port := fmt.Sprint(testkit.FreePort(t))
			m.connect(t, []string{"rping", "-s", "-p", port, "-V", "-C", "200", "-S", "3000"}, []string{"rping", "-c", "-p", port, "-V", "-C", "200", "-S", "3000", "-a", "127.0.0.1"})
		})
	})
	close(stop)
	<-stopped
	if made := m.cable.made; made < 10 {
		t.Errorf("there were only %d connections", made)
	} else {
		t.Logf("there were %d connections", made)
	}
	m.empty(t)
}

// TestOutageBetweenMachines: requests whose machine is not reached for their queue pair's time end with the
// error of verbs.
func TestOutageBetweenMachines(t *testing.T) {
	m := newMachines(t)
	begun := func() bool { return m.ports[0].Statistics().Forwarded+m.ports[1].Statistics().Forwarded >= 1<<20 }
	out := m.loses(t, "ib_write_bw -F -D 120", 30*time.Second, begun, func(*service) { m.cable.plug(false) })
	if want := fmt.Sprint("status ", retryExceeded); !strings.Contains(out, want) {
		t.Errorf("%q is missing in:\n%s", want, out)
	}
}

// retryExceeded is IBV_WC_RETRY_EXC_ERR.
const retryExceeded = 12

// TestConnectionsBetweenMachines: stock programs connect by address, and leave nothing at either broker.
func TestConnectionsBetweenMachines(t *testing.T) {
	m := newMachines(t)
	t.Run("programs", func(t *testing.T) { m.connects(t) })
	for i, p := range m.ports {
		if s := p.Statistics(); s.Forwarded == 0 || s.Counters[message.CountDirectBytes] != 0 {
			t.Errorf("of container %d, %d bytes were forwarded and %d copied directly", i, s.Forwarded, s.Counters[message.CountDirectBytes])
		}
	}
	m.empty(t)
}

// TestConnectionEventsBetweenMachines: events, and messages to groups, are those of one machine.
func TestConnectionEventsBetweenMachines(t *testing.T) { newMachines(t).events(t) }

// TestMulticastBetweenMachines: members and senders of groups need not be on one machine.
func TestMulticastBetweenMachines(t *testing.T) { newMachines(t).multicast(t) }

// TestKilledProcessDisconnectsBetweenMachines does the same as on one machine.
func TestKilledProcessDisconnectsBetweenMachines(t *testing.T) {
	killed(t, func(t *testing.T) host { return newMachines(t).host })
}

// portAddress is that of a port of the tests.
func portAddress(rank int) broker.Address {
	return broker.Address{
		LID: uint16(rank + 1), GID: [16]byte{0: 0xfe, 1: 0x80, 15: byte(rank + 1)},
		IPs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, byte(rank + 1)})},
	}
}
