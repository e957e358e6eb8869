package node

import (
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"github.com/bee-hpc/bee/internal/rdma/broker/message"
)

// TestDomainOfSeveralHosts: a domain is for runs all of whose nodes one broker serves.
func TestDomainOfSeveralHosts(t *testing.T) {
	v := &verbs{config: plan.Config{Size: 3}, life: t.Context()}
	_, err := v.claimDomain("lab", []int{0, 2}, "")
	if !core.IsKind(err, core.Unsupported) || !strings.Contains(core.Remedy(err), "rdma.domain") {
		t.Errorf("got %v", err)
	}
}

// TestAddressesOfADomain: ports have the LIDs of their place, and a lone node the addresses of its host.
func TestAddressesOfADomain(t *testing.T) {
	own := filepath.Join(t.TempDir(), "own")
	for first, ips := range [][]netip.Addr{nil, hostIPs()} {
		p, err := domain.Claim(t.Context(), own, "lab", strings.Repeat("b", message.Build), 2)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Open(nil); err != nil {
			t.Fatal(err)
		}
		d := verbsDomain{place: p, ips: ips}
		for rank := range 2 {
			a := verbsAddress("run", rank)
			want := a.GID
			if d.adds(&a); int(a.LID) != 1+rank || a.GID != want || !slices.Equal(a.IPs, ips) {
				t.Errorf("node %d of the place %d has %+v", rank, first, a)
			}
		}
		if len(d.addresses) != 2 || d.addresses[1].LID != 2 {
			t.Errorf("the others learn of %+v", d.addresses)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	a := verbsAddress("run", 4)
	if new(verbsDomain).adds(&a); a.LID != 5 {
		t.Errorf("without a domain, node 4 has %+v", a)
	}
	if !slices.Contains(hostIPs(), netip.AddrFrom4([4]byte{127, 0, 0, 1})) {
		t.Errorf("a host has %v", hostIPs())
	}
}
