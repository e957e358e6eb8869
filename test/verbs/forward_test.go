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
	cut func() // ends the link between them
}

func newMachines(t *testing.T) machines {
	l := built(t)
	h := host{library: filepath.Join(shortDir(t), "verbs.so")}
	if err := core.WriteProgram(h.library, l.File, 0o755); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var conns [2]net.Conn
	if conns[1], err = net.Dial("tcp4", listener.Addr().String()); err == nil {
		conns[0], err = listener.Accept()
	}
	if err != nil {
		t.Fatal(err)
	}
	ctx, cut := context.WithCancel(t.Context())
	var servers [2]*server.Server
	for i := range servers {
		s := server.New(l.Build, slog.New(slog.NewTextHandler(t.Output(), nil)))
		servers[i] = s
		h.listen(t, s, i)
		m := server.Machines{
			Own: []int{i}, Address: portAddress, Want: func(int) {},
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
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			t.Logf("the link of broker %d has ended: %v", i, s.Serve(ctx, conns[i], 1-i))
		}()
		t.Cleanup(func() {
			cut()
			<-ended
			s.Close()
		})
	}
	testkit.Eventually(t, 20*time.Second, func() error {
		for i, s := range servers {
			if !s.Linked(1 - i) {
				return errors.New("the brokers are not linked")
			}
		}
		return nil
	})
	return machines{h, cut}
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

// TestConnectionEventsBetweenMachines: events are those of one machine. Messages to groups stay there.
func TestConnectionEventsBetweenMachines(t *testing.T) { newMachines(t).events(t, 0) }

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
