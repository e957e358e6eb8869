package node

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
	"github.com/bee-hpc/bee/internal/rdma/broker/server"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestPreload: the library comes before those of the user, once.
func TestPreload(t *testing.T) {
	for _, tc := range []struct{ env, want []string }{
		{[]string{"A=b"}, []string{"A=b", "LD_PRELOAD=/.bee/verbs.so"}},
		{[]string{"LD_PRELOAD=/opt/malloc.so", "A=b"}, []string{"A=b", "LD_PRELOAD=/.bee/verbs.so:/opt/malloc.so"}},
		{[]string{"LD_PRELOAD="}, []string{"LD_PRELOAD=/.bee/verbs.so"}},
	} {
		if got := preload(tc.env); !slices.Equal(got, tc.want) {
			t.Errorf("%q becomes %q", tc.env, got)
		}
	}
}

// TestSameMachine: nodes share a broker if they run on one kernel and see each other's
// directories.
func TestSameMachine(t *testing.T) {
	dir := t.TempDir()
	for _, rank := range []int{0, 1, 3} {
		if err := os.Mkdir(plan.NodeDir(dir, rank), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	c := plan.Config{Rank: 3, Host: core.Host{Dir: dir}}
	members := []peercall.Member{{Rank: 0, Machine: machine()}, {Rank: 1, Machine: "another"}, {Rank: 2, Machine: machine()}, {Rank: 3, Machine: machine()}}
	if got := sameMachine(c, members); !slices.Equal(got, []int{0, 3}) {
		t.Errorf("got %v", got)
	}
	if got := sameMachine(c, nil); !slices.Equal(got, []int{3}) {
		t.Errorf("before the others are known: %v", got)
	}
}

// TestTogether: the broker of a node may speak for those of its machine, as far as members are known.
func TestTogether(t *testing.T) {
	l := &verbsLinks{verbs: &verbs{config: plan.Config{Size: 9}, known: &known{}}}
	l.verbs.known.learn(plan.Plan{}, []peercall.Member{{Machine: "a"}, {Rank: 1, Machine: "b/1"}, {Rank: 2, Machine: "b/2"}, {Rank: 3}, {Rank: 4}}, peercall.Network{})
	together := l.machines(nil, nil).Together
	for _, tc := range []struct {
		a, b int
		want bool
	}{{1, 2, true}, {2, 1, true}, {0, 1, false}, {3, 4, false}, {1, 5, false}, {6, 7, false}, {1, -1, false}} {
		if got := together(tc.a, tc.b); got != tc.want {
			t.Errorf("nodes %d and %d: %v", tc.a, tc.b, got)
		}
	}
}

// TestVerbsAddress: ports of a run have addresses of their own, and so have those of another.
func TestVerbsAddress(t *testing.T) {
	seen := map[[16]byte]bool{}
	for _, run := range []string{"a", "b"} {
		for _, rank := range []int{0, 1, 254, 255, 256, 40000} {
			a := verbsAddress(run, rank)
			if int(a.LID) != rank+1 || a.GID[0] != 0xfe || a.GID[1] != 0x80 || seen[a.GID] {
				t.Errorf("node %d of %s has %+v", rank, run, a)
			}
			seen[a.GID] = true
		}
	}
}

// TestVerbsIPs: programs find a container by the address that its node has in the run.
func TestVerbsIPs(t *testing.T) {
	members := []peercall.Member{{Rank: 0, IP: "10.0.0.1"}, {Rank: 1, IP: "fd00::1%eth0"}, {Rank: 2}, {Rank: 3, IP: "none"}}
	for rank, want := range [][]netip.Addr{{netip.MustParseAddr("10.0.0.1")}, {netip.MustParseAddr("fd00::1")}, nil, nil, nil} {
		if got := verbsIPs(members, rank); !slices.Equal(got, want) {
			t.Errorf("node %d has %v", rank, got)
		}
	}
}

// TestVerbsStatistics: each count of a port has a field of its own, and programs count what
// they like.
func TestVerbsStatistics(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	n := newNode(t.Context(), plan.Config{}, Options{Log: log}, nil)
	c := controllerOf(t, n)
	if _, err := c.Verbs(t.Context()); !core.IsKind(err, core.NotFound) {
		t.Errorf("without a device: %v", err)
	}
	n.verbs.ready, n.verbs.ports = true, map[int]*server.Port{}
	defer n.verbs.close()
	devices, dir := server.New("", log, nil), t.TempDir()
	for _, rank := range []int{3, 1} {
		p, err := devices.Listen(filepath.Join(dir, fmt.Sprint(rank)), verbsAddress("run", rank), broker.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		n.verbs.ports[rank] = p
	}
	if ports, err := c.Verbs(t.Context()); err != nil || !slices.Equal(ports, []core.VerbsPort{{Rank: 1}, {Rank: 3}}) {
		t.Errorf("of two devices without programs: %+v, %v", ports, err)
	}
	s := server.Statistics{Forwarded: 6, Usage: broker.Usage{Processes: 1, Memory: 2}, Refusals: server.Refusals{Limits: 3, Keys: 4, Others: 5}}
	for i := range s.Counters {
		s.Counters[i] = uint64(100 + i)
	}
	for i := range s.Objects {
		s.Objects[i] = 200 + i
	}
	for i := range s.States {
		s.States[i] = 29 + i
	}
	s.Objects[message.KindQP] = 7 * 32 // the sum of the states
	p := s.View(6)
	if err := (nodecall.Verbs{Ports: []core.VerbsPort{p}}).Check(); err != nil {
		t.Error(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	testkit.Golden(t, "verbs-statistics", string(raw)+"\n")
	s.Counters[message.CountErrors] = 1<<64 - 1
	if p = s.View(6); p.Errors != core.MaxVerbsCount {
		t.Errorf("a count that cannot be is shown as %d", p.Errors)
	}
}
