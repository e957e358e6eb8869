package node

import (
	"log/slog"
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/library"
	rdmapool "github.com/bee-hpc/bee/internal/rdma/pool"
)

// TestRunsWithPools: all nodes come to the same answer, by what they know of all.
func TestRunsWithPools(t *testing.T) {
	apart := []peercall.Member{{Machine: "a/1"}, {Rank: 1, Machine: "b/1"}, {Rank: 2}, {Rank: 3}}
	beside := append(apart[:2:2], peercall.Member{Rank: 2, Machine: "b/2"})
	guests := plan.Plan{RDMA: plan.RDMABee, RDMAPath: plan.RDMADirect, VM: &plan.VM{}}
	for _, tc := range []struct {
		name    string
		plan    plan.Plan
		members []peercall.Member
		want    bool
	}{
		{"guests of one host", guests, beside, true},
		{"each on a host of its own", guests, apart, false},
		{"not asked for", plan.Plan{RDMA: plan.RDMABee, VM: &plan.VM{}}, beside, false},
		{"another device", plan.Plan{RDMA: plan.RDMASoft, RDMAPath: plan.RDMADirect, VM: &plan.VM{}}, beside, false},
		{"containers", plan.Plan{RDMA: plan.RDMABee, RDMAPath: plan.RDMADirect}, beside, false},
	} {
		if got := pooled(tc.plan, tc.members); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
	for _, tc := range []struct{ memory, rdma, want int64 }{{0, 0, defaultShare}, {4 << 30, 0, 2 << 30}, {4 << 30, 1 << 20, 1 << 20}} {
		if got := share(plan.Plan{RDMAMemory: tc.rdma, VM: &plan.VM{Memory: tc.memory}}); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}

// TestNodesShareAPool: the nodes of two guests of a host have one pool, and one broker, with a port for each guest.
func TestNodesShareAPool(t *testing.T) {
	if _, err := library.Get(); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "pool-") // that of t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	p := plan.Plan{RDMA: plan.RDMABee, RDMAPath: plan.RDMADirect, RDMAMemory: 16 << 20, VM: &plan.VM{}}
	var members []peercall.Member
	for rank := range 2 {
		members = append(members, peercall.Member{Rank: rank, Machine: machine() + "/x"})
		if err := os.MkdirAll(plan.NodeDir(dir, rank), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var ids [2]os.FileInfo
	for rank := range 2 {
		c := plan.Config{Rank: rank, Size: 2, Owner: core.Owner{Run: "run"}, Host: core.Host{Name: "beta", Dir: dir}}
		n := newNode(t.Context(), c, Options{Log: slog.New(slog.DiscardHandler), hostGroup: newHostGroup()}, nil)
		n.known.learn(p, members, peercall.Network{})
		t.Cleanup(n.verbs.close)
		o, err := n.verbs.inGuest(t.Context(), members, p)
		if err != nil {
			t.Fatal(err)
		}
		if o.Ask != nil || o.Pool == nil || o.Pool.Program == nil || o.Pool.Share != o.Pool.Bytes/2 || o.Pool.Base != rdmapool.Data || o.Pool.Bytes < 2*(16<<20+ringsShare) {
			t.Fatalf("guest %d gets %+v with %+v", rank, o, o.Pool)
		}
		if ids[rank], err = o.Pool.File.Stat(); err != nil || ids[rank].Size() != o.Pool.Bytes {
			t.Errorf("guest %d has %v, %v", rank, ids[rank], err)
		}
		s, err := n.verbs.statistics(t.Context())
		if want := 2 - 2*rank; err != nil || len(s.Ports) != want {
			t.Errorf("node %d reports %+v, %v", rank, s, err)
		}
	}
	if !os.SameFile(ids[0], ids[1]) {
		t.Error("each guest has another pool")
	}
}
