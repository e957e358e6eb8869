package cloud

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// resolveTime bounds how long the address of a bastion is looked for.
const resolveTime = 10 * time.Second

// FromBastion returns the ranges of addresses that ssh is let in from where machines are reached through a bastion,
// [user@]host: those of its name and, where it is a machine of the same cloud, those that it has in there. inside finds
// these by an address.
func FromBastion(ctx context.Context, bastion string, inside func(ctx context.Context, address string) ([]string, error)) ([]string, error) {
	host := bastion[strings.LastIndex(bastion, "@")+1:]
	found, err := resolve(ctx, host)
	if err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "find the address of the bastion", Object: host, Err: err,
			Remedy: "Write `network: {ssh_from: [203.0.113.7/32]}` at the site, with the address from which the bastion reaches the machines.",
		}
	}
	var all []string
	for _, outer := range found {
		more, err := inside(ctx, outer.String())
		if err != nil {
			return nil, err
		}
		for _, text := range append([]string{outer.String()}, more...) {
			ip, err := netip.ParseAddr(text)
			if err != nil || ip.Zone() != "" {
				return nil, &core.Error{Kind: core.Permanent, Op: "find the address of the bastion", Object: host, Err: fmt.Errorf("%q is no address", core.Printable(text, 80)), Remedy: "Name the bastion by its address."}
			}
			if own := netip.PrefixFrom(ip, ip.BitLen()).String(); !slices.Contains(all, own) {
				all = append(all, own)
			}
		}
	}
	return all, nil
}

// resolve returns the addresses of a host by which others know it.
func resolve(ctx context.Context, host string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, resolveTime)
	defer cancel()
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i] = all[i].Unmap().WithZone("")
	}
	all = slices.DeleteFunc(all, func(a netip.Addr) bool { return a.IsLoopback() || a.IsUnspecified() || a.IsLinkLocalUnicast() })
	slices.SortFunc(all, netip.Addr.Compare)
	if all = slices.Compact(all); len(all) == 0 {
		return nil, errors.New("it has none outside of this machine")
	}
	return all, nil
}
