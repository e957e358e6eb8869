package fabric

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Group is the address and port to which the hypervisors of a run send, taken
// from the range for one organisation's own use (RFC 2365), so that two runs
// seldom hear each other; the port differs as well.
func Group(run string) netip.AddrPort {
	h := sha256.Sum256([]byte(run))
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{239, 192 | h[0]&3, h[1], h[2]}), 20000+uint16(h[3])<<5+uint16(h[4])%32)
}

// MulticastMTU is the largest of guests whose frames go by multicast: a
// datagram each.
const MulticastMTU = 64000

const beaconText = "bee: can you hear this "

// Beacon says something to a group until the context ends, so that others find
// out whether the network carries it. It goes to the port beside the guests'.
func Beacon(ctx context.Context, run, ip string) error {
	group := Group(run)
	c, err := net.DialUDP("udp4", &net.UDPAddr{IP: net.ParseIP(ip)}, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group.Addr(), group.Port()+1)))
	if err != nil {
		return err
	}
	defer c.Close()
	for ticker := time.NewTicker(50 * time.Millisecond); ; {
		core.BestEffort(c.Write([]byte(beaconText + run))) // what does not come through is what Hear finds out
		select {
		case <-ticker.C:
		case <-ctx.Done():
			ticker.Stop()
			return nil
		}
	}
}

// hearTimeout is how long a beacon may take.
const hearTimeout = 5 * time.Second

// Hear waits for the beacon, on the interface that has an address.
func Hear(ctx context.Context, run, ip string) error {
	group := Group(run)
	iface, err := interfaceOf(ip)
	if err != nil {
		return err
	}
	c, err := net.ListenMulticastUDP("udp4", iface, net.UDPAddrFromAddrPort(netip.AddrPortFrom(group.Addr(), group.Port()+1)))
	if err != nil {
		return err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	c.SetReadDeadline(time.Now().Add(hearTimeout))
	buf := make([]byte, 1500)
	for {
		n, err := c.Read(buf)
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return &core.Error{
				Kind: core.Unsupported, Op: "use multicast between hosts", Err: fmt.Errorf("nothing was heard on %s within %v", iface.Name, hearTimeout),
				Remedy: "The network between the hosts does not carry it: use `vm: {fabric: switch}`.",
			}
		}
		if bytes.Equal(buf[:n], []byte(beaconText+run)) {
			return nil
		}
	}
}

func interfaceOf(ip string) (*net.Interface, error) {
	want, err := netip.ParseAddr(ip)
	if err != nil {
		return nil, err
	}
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == want {
				return &i, nil
			}
		}
	}
	return nil, errors.New("no interface has the address " + ip)
}
