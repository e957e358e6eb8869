package emulate

import (
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"os"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	bridgeName = "bridge"
	// linkName is what a host calls its network interface.
	linkName = "eth0"
	// prefixBits of the hosts' network, 10.x.0.0/16.
	prefixBits = 16
	// maxKnown is the number of hosts up to which each knows all others' link
	// addresses from the start. The kernel keeps at most some 1,000 learned
	// ones for all hosts of the machine together (net.ipv4.neigh.default.
	// gc_thresh3), which 32 hosts that all speak with each other exceed.
	maxKnown = 512
	// maxHosts is what the addresses are enough for.
	maxHosts = 250 * 250
)

// network is the bridge and the links to it, in the holder's own namespace.
type network struct {
	mu     sync.Mutex // one netlink socket, and one kernel lock behind it
	nl     *netlink.Handle
	bridge *netlink.Bridge
	second byte // of the addresses
	hosts  int
	rate   int64
	delay  int64
}

func newNetwork(s Spec) (*network, error) {
	if len(s.Hosts) == 0 || len(s.Hosts) > maxHosts {
		return nil, &core.Error{Kind: core.Invalid, Err: fmt.Errorf("cannot make %d hosts", len(s.Hosts))}
	}
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, err
	}
	// Networks of different runs never meet; different numbers only help
	// people who read logs.
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(s.Dir))
	n := &network{nl: nl, hosts: len(s.Hosts), second: byte(1 + hash.Sum32()%250), rate: s.LinkRate, delay: s.LinkDelay}
	off := false
	n.bridge = &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: bridgeName}, MulticastSnooping: &off}
	if err := nl.LinkAdd(n.bridge); err != nil {
		return nil, fmt.Errorf("add bridge: %w", err)
	}
	return n, n.startBridge()
}

func (n *network) startBridge() error {
	if err := upLoopback(n.nl); err != nil {
		return err
	}
	if err := n.nl.AddrAdd(n.bridge, ipNet(netip.AddrFrom4([4]byte{10, n.second, 255, 254}))); err != nil {
		return fmt.Errorf("bridge address: %w", err)
	}
	if err := n.nl.LinkSetUp(n.bridge); err != nil {
		return fmt.Errorf("bridge up: %w", err)
	}
	return nil
}

// addr is the address of a host: no octet of it is 0 or 255 at the end.
func (n *network) addr(host int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, n.second, byte(host / 250), byte(1 + host%250)})
}

// linkAddr is the link address that goes with an address.
func linkAddr(a netip.Addr) net.HardwareAddr {
	return append(net.HardwareAddr{0x02, 0}, a.AsSlice()...)
}

func ipNet(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(prefixBits, 32)}}
}

func upLoopback(nl *netlink.Handle) error {
	// The loopback interface is always the first of its namespace.
	if err := nl.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}); err != nil {
		return fmt.Errorf("loopback up: %w", err)
	}
	return nil
}

// serviceAddress is called on the host's thread: it gives it the address of a service; none: nothing is done.
func serviceAddress(nl *netlink.Handle, a netip.Addr) error {
	if !a.IsValid() {
		return nil
	}
	lo := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Index: 1}}
	if err := nl.AddrAdd(lo, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}); err != nil {
		return fmt.Errorf("address of a service: %w", err)
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_unprivileged_port_start", []byte("0"), 0)
}

// connect makes the host's link, with one end on the bridge, or a line in between.
func (n *network) connect(h *host) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	veth := &netlink.Veth{
		LinkAttrs:        netlink.LinkAttrs{Name: h.port, MasterIndex: n.bridge.Index, Flags: net.FlagUp, TxQLen: 1000},
		PeerName:         linkName,
		PeerHardwareAddr: linkAddr(h.addr),
		PeerNamespace:    netlink.NsFd(h.netns.Fd()),
	}
	if h.spec.Line == nil {
		if err := n.nl.LinkAdd(veth); err != nil {
			return fmt.Errorf("add link: %w", err)
		}
		return n.shape(n.nl, veth)
	}
	near, far := lineNames(h)
	veth.Name, veth.MasterIndex = far, 0
	port := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: h.port, MasterIndex: n.bridge.Index, Flags: net.FlagUp, TxQLen: 1000}, PeerName: near}
	for _, link := range []*netlink.Veth{veth, port} {
		if err := n.nl.LinkAdd(link); err != nil {
			return fmt.Errorf("add link: %w", err)
		}
	}
	end, err := n.nl.LinkByName(near)
	if err != nil {
		return err
	}
	if err := n.stretch(h, end, veth); err != nil {
		return err
	}
	return n.shape(n.nl, veth)
}

// configure is called on the host's thread: it sets up the host's end.
func (n *network) configure(h *host) error {
	nl, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer nl.Close()
	if err := upLoopback(nl); err != nil {
		return err
	}
	if err := serviceAddress(nl, h.spec.Service); err != nil {
		return err
	}
	link, err := nl.LinkByName(linkName)
	if err != nil {
		return err
	}
	if err := nl.AddrAdd(link, ipNet(h.addr)); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	if err := nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("link up: %w", err)
	}
	if err := n.introduce(nl, link, h); err != nil {
		return fmt.Errorf("neighbours: %w", err)
	}
	return n.shape(nl, link)
}

// introduce reports to a host the others' link addresses.
func (n *network) introduce(nl *netlink.Handle, link netlink.Link, h *host) error {
	if n.hosts > maxKnown {
		return nil
	}
	for i := range n.hosts {
		if i == h.index {
			continue
		}
		a := n.addr(i)
		if err := nl.NeighAdd(&netlink.Neigh{LinkIndex: link.Attrs().Index, State: unix.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: linkAddr(a)}); err != nil {
			return err
		}
	}
	return nil
}

// shape limits what goes out by a link's end.
func (n *network) shape(nl *netlink.Handle, link netlink.Link) error {
	attrs := netlink.QdiscAttrs{LinkIndex: link.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT}
	if n.delay > 0 {
		err := nl.QdiscAdd(netlink.NewNetem(attrs, netlink.NetemQdiscAttrs{Latency: uint32(n.delay)}))
		if errors.Is(err, unix.ENOENT) {
			return &core.Error{
				Kind: core.Unsupported, Op: "delay the link", Err: errors.New("this kernel has no netem queue (sch_netem)"),
				Remedy: "Leave the delay out, or load the module with `modprobe sch_netem`.",
			}
		}
		if err != nil || n.rate == 0 {
			return err
		}
		return &core.Error{Kind: core.Unsupported, Err: errors.New("a link has either a delay or a rate")}
	}
	if n.rate <= 0 {
		return nil
	}
	if err := nl.QdiscAdd(bucket(attrs, n.rate)); err != nil {
		return fmt.Errorf("limit the rate of the link: %w", err)
	}
	return nil
}

// bucket is a token bucket filter (tc-tbf(8)) for a rate in bits per second.
func bucket(attrs netlink.QdiscAttrs, rate int64) *netlink.Tbf {
	bytes := max(rate/8, 1000)
	// 10 ms' worth, at least a few packets; the queue holds 100 ms more.
	burst := max(bytes/100, 16<<10)
	limit := min(burst+max(bytes/10, 64<<10), 1<<31)
	const tick = 64 // nanoseconds, the unit of a bucket's size (psched)
	return &netlink.Tbf{QdiscAttrs: attrs, Rate: uint64(bytes), Limit: uint32(limit), Buffer: uint32(burst * 1e9 / bytes / tick)}
}

// link cuts or heals a host's link by taking its end off the bridge, so that
// the host sees no loss of carrier.
func (n *network) link(h *host, up bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	port, err := n.nl.LinkByName(h.port)
	if err != nil {
		return err
	}
	if up {
		return n.nl.LinkSetMaster(port, n.bridge)
	}
	return n.nl.LinkSetNoMaster(port)
}

// apart has a host reach, and be reached by, only those that are not apart. The
// machine that the bridge is on is always reached.
func (n *network) apart(h *host, is bool) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	port, err := n.nl.LinkByName(h.port)
	if err != nil {
		return err
	}
	return n.nl.LinkSetIsolated(port, is)
}
