package verbs

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/testkit"
)

// runs are two brokers of a domain, as of two runs, with a port each.
type runs struct {
	host
	servers [2]*server.Server
}

func newRuns(t *testing.T) runs {
	l := built(t)
	dir := shortDir(t)
	r := runs{host: host{library: filepath.Join(dir, "verbs.so")}}
	if err := core.WriteProgram(r.library, l.File, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range r.servers {
		s := server.New(l.Build, slog.New(slog.NewTextHandler(t.Output(), nil)), nil)
		r.servers[i] = s
		p, err := domain.Claim(t.Context(), filepath.Join(dir, "domains"), "lab", l.Build, 1)
		if err != nil {
			t.Fatal(err)
		}
		r.listen(t, s, i)
		if a := portAddress(i); p.First != a.LID {
			t.Fatalf("run %d has the LID %d", i, p.First)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		if err := s.Enter(p, []broker.Address{portAddress(i)}, 1); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// shared are some of the stock programs, of all kinds of queue pairs and operations.
var shared = []string{
	"ibv_rc_pingpong -c", "ibv_uc_pingpong -n 300", "ibv_ud_pingpong -e -n 300", "ibv_srq_pingpong -e -n 300",
	"ib_write_bw -n 500", "ib_read_lat", "ib_send_bw -e -n 500", "ib_atomic_bw -n 500", "ib_write_bw -q 8 -n 300", "ib_send_bw -r 100 -q 4 --use-srq -n 300",
}

func TestStockProgramsInADomain(t *testing.T) {
	r := newRuns(t)
	t.Run("programs", func(t *testing.T) {
		if testkit.Everything() {
			r.all(t, stock)
		} else {
			r.all(t, shared)
		}
	})
	t.Run("files", func(t *testing.T) { r.all(t, []string{"ib_write_bw -n 300", "ib_read_bw -n 300"}, "--mmap=buffer") })
	for i, p := range r.ports {
		if s := p.Statistics(); s.Forwarded != 0 || i == 1 && s.Counters[message.CountDirectBytes] == 0 {
			t.Errorf("of run %d, %d bytes were forwarded and %d copied directly", i, s.Forwarded, s.Counters[message.CountDirectBytes])
		}
	}
	r.empty(t)
}

// TestRandomOperationsInADomain: the same between two runs, one of which has a side each.
func TestRandomOperationsInADomain(t *testing.T) {
	r := newRuns(t)
	t.Run("seeds", func(t *testing.T) { r.check(t, 100, "OTHER_SOCKET="+r.sockets[1]) })
	r.empty(t)
}

// TestConnectionsInADomain: stock programs connect by address, and leave nothing at either broker.
func TestConnectionsInADomain(t *testing.T) {
	r := newRuns(t)
	t.Run("programs", func(t *testing.T) { r.connects(t) })
	r.empty(t)
}

func TestConnectionEventsInADomain(t *testing.T) { newRuns(t).events(t) }

func TestMulticastInADomain(t *testing.T) { newRuns(t).multicast(t) }

// TestLossInADomain: a program whose peer is killed, or whose peer's broker ends, fails soon.
func TestLossInADomain(t *testing.T) {
	for name, lose := range map[string]func(r runs, victim *service) error{
		"program": func(_ runs, victim *service) error { return victim.Process.Kill() },
		"broker":  func(r runs, _ *service) error { return r.servers[0].Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRuns(t)
			begun := func() bool { return r.ports[1].Statistics().Counters[message.CountWrites] >= 1000 }
			r.loses(t, "ib_write_bw -F -D 120", 10*time.Second, begun, func(victim *service) {
				if err := lose(r, victim); err != nil {
					t.Error(err)
				}
				lost := time.Now()
				testkit.Eventually(t, 10*time.Second, func() error { // an idle machine takes some milliseconds
					if s := r.ports[1].Statistics(); s.States[broker.ReadyToSend] != 0 {
						return errors.New("the queue pair is not in error")
					}
					return nil
				})
				t.Logf("the queue pair failed after %s", time.Since(lost))
			})
		})
	}
}
