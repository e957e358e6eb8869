package openstack

import (
	"context"
	"errors"
	stdnet "net"
	"net/netip"
	"net/url"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// origin is where ssh comes from.
type origin struct{ a *account }

// from returns the ranges of addresses that ssh is let in from: the site's, its bastion's, or the address by which this
// machine reaches the cloud.
func (o origin) from(ctx context.Context) ([]string, error) {
	a := o.a
	if len(a.s.SSHFrom) > 0 {
		return a.s.SSHFrom, nil
	}
	if a.s.Cloud.Bastion != "" {
		return cloud.FromBastion(ctx, a.s.Cloud.Bastion, o.inside)
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

// inside returns the address in its network of a machine of the project, by its floating one; none: the project has no such.
func (o origin) inside(ctx context.Context, public string) (fixed []string, err error) {
	var answer struct {
		Addresses []floatingAddress `json:"floatingips"`
	}
	err = o.a.call(ctx, network, get, "floatingips?"+url.Values{"floating_ip_address": {public}}.Encode(), nil, &answer)
	if isGone(err) { // a cloud without them
		return nil, nil
	}
	for _, f := range answer.Addresses {
		if f.Address == public && f.Fixed != "" {
			fixed = append(fixed, f.Fixed)
		}
	}
	return fixed, err
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
