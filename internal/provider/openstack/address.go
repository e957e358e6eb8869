package openstack

import (
	"context"
	"errors"
	stdnet "net"
	"net/netip"
	"net/url"

	"github.com/bee-hpc/bee/internal/core"
)

// from returns the ranges of addresses that ssh is let in from: the site's, or the address by which this
// machine reaches the cloud.
func (a *account) from(ctx context.Context) ([]string, error) {
	if len(a.s.SSHFrom) > 0 {
		return a.s.SSHFrom, nil
	}
	s, err := a.login(ctx)
	if err != nil {
		return nil, err
	}
	at, err := url.Parse(s.provider.IdentityBase)
	if err != nil {
		return nil, err
	}
	own, err := ownAddress(ctx, at.Hostname())
	if err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "find this machine's address as the cloud sees it", Err: err,
			Remedy: "Write `network: {ssh_from: [203.0.113.7/32]}` at the site, with the address from which you reach the cloud.",
		}
	}
	return []string{netip.PrefixFrom(own, own.BitLen()).String()}, nil
}

// ownAddress returns the address by which this machine reaches a host. Nothing is sent.
func ownAddress(ctx context.Context, host string) (netip.Addr, error) {
	var dialer stdnet.Dialer
	c, err := dialer.DialContext(ctx, "udp", stdnet.JoinHostPort(host, "443"))
	if err != nil {
		return netip.Addr{}, err
	}
	defer c.Close()
	own, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	there, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return netip.Addr{}, err
	}
	return asSeen(own.Addr().Unmap(), there.Addr().Unmap())
}

// asSeen returns the address of this machine as a host sees it. A private address is only seen in a private network.
func asSeen(own, there netip.Addr) (netip.Addr, error) {
	switch {
	case own.IsLoopback():
		return netip.Addr{}, errors.New("the cloud is on this machine")
	case own.IsPrivate() && !there.IsPrivate():
		return netip.Addr{}, errors.New("this machine reaches the cloud from a private network, whose outer address it does not know")
	}
	return own.WithZone(""), nil
}
