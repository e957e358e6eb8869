package aws

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/provider/cloud"
)

// addressService is AWS's service that reports from which address it is asked.
const addressService = "https://checkip.amazonaws.com"

// origin is where ssh comes from.
type origin struct{ a *account }

// from returns the ranges of addresses that ssh is let in from: the site's, its bastion's, or this machine as
// the internet sees it.
func (o origin) from(ctx context.Context) ([]string, error) {
	a := o.a
	if len(a.s.SSHFrom) > 0 {
		return a.s.SSHFrom, nil
	}
	if a.private() && a.s.Cloud.Bastion == "" {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "find this machine's address in the network of site", Object: a.s.Cloud.Name, Err: errors.New("the machines have no public addresses"),
			Remedy: "Write `network: {ssh_from: [10.0.0.0/16]}` at the site, with the address that this machine has there.",
		}
	}
	if a.private() {
		return cloud.FromBastion(ctx, a.s.Cloud.Bastion, o.inside)
	}
	ip, err := ownAddress(ctx, addressService)
	if err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "find this machine's address as AWS sees it", Err: err,
			Remedy: "Write `network: {ssh_from: [203.0.113.7/32]}` at the site, with the address from which you reach the internet.",
		}
	}
	return []string{netip.PrefixFrom(ip, ip.BitLen()).String()}, nil
}

// inside returns the private address of a machine of the account, by its public one; none: the account has no such machine.
func (o origin) inside(ctx context.Context, public string) (private []string, err error) {
	if strings.Contains(public, ":") { // it is the same inside
		return nil, nil
	}
	found, err := o.a.describe(ctx, filter{"ip-address", []string{public}})
	for _, i := range found {
		if i.Private != "" { // one that has ended has none
			private = append(private, i.Private)
		}
	}
	return private, err
}

// ownAddress asks a service for the address from which it is asked.
func ownAddress(ctx context.Context, service string) (netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, service, nil)
	if err != nil {
		return netip.Addr{}, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return netip.Addr{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, 100))
	if err != nil {
		return netip.Addr{}, err
	}
	if answer.StatusCode != http.StatusOK {
		return netip.Addr{}, fmt.Errorf("%s answers with status %d", service, answer.StatusCode)
	}
	ip, err := netip.ParseAddr(strings.TrimSpace(string(text)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("%s answers %q, expected an address", service, core.Printable(string(text), 80))
	}
	return ip.Unmap(), nil
}
