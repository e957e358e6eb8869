package node

import (
	"fmt"
	"net/netip"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rdma/broker"
	"github.com/bee-hpc/bee/internal/rdma/broker/domain"
	"golang.org/x/sys/unix"
)

// verbsDomain is the place of a run in a domain of this host. The zero one is that of a run without a domain.
type verbsDomain struct {
	place     *domain.Place
	addresses []broker.Address // of the ports, in the order of their LIDs
	network   uint64           // of their IP addresses; 0: it is the run's own
	ips       []netip.Addr     // of a lone node
}

// claimDomain finds the place of a run whose nodes are those.
func (v *verbs) claimDomain(name string, ranks []int, build string) (verbsDomain, error) {
	c := v.config
	var d verbsDomain
	if len(ranks) != c.Size {
		return d, &core.Error{
			Kind: core.Unsupported, Op: "join", Object: fmt.Sprintf("the domain %q of bee_0", name),
			Err: fmt.Errorf("of the %d nodes of the run, only %d are on this host", c.Size, len(ranks)), Remedy: "Leave `rdma.domain` out: it joins runs that are on one host. Or use fewer nodes.",
		}
	}
	if c.Size == 1 { // it has the addresses of the host's network, and others have the same ones
		var st unix.Stat_t
		if err := unix.Stat("/proc/self/ns/net", &st); err != nil {
			return d, fmt.Errorf("look at the network of this host: %w", err)
		}
		d.network, d.ips = st.Ino, hostIPs()
	}
	var err error
	d.place, err = domain.Claim(v.life, fsutil.HostPlace("bee-rdma-"), name, build, len(ranks))
	return d, err
}

// hostIPs are the addresses of this host, also those of itself alone.
func hostIPs() []netip.Addr {
	ips := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	for _, text := range interfaceAddrs("") {
		if ip, err := netip.ParseAddr(text); err == nil {
			ips = append(ips, ip.Unmap().WithZone(""))
		}
	}
	return ips
}

// adds gives the next port its address in the domain.
func (d *verbsDomain) adds(a *broker.Address) {
	if d.place == nil {
		return
	}
	a.LID = d.place.First + uint16(len(d.addresses))
	a.IPs = append(a.IPs, d.ips...)
	d.addresses = append(d.addresses, *a)
}

// close leaves the domain before the server has entered it.
func (d *verbsDomain) close() error {
	if d.place == nil {
		return nil
	}
	return d.place.Close()
}
