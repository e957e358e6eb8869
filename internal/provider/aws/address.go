package aws

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// addressService is AWS's service that reports from which address it is asked.
const addressService = "https://checkip.amazonaws.com"

// from returns the ranges of addresses that ssh is let in from: the site's, or this machine as
// the internet sees it.
func (s Settings) from(ctx context.Context) ([]string, error) {
	if len(s.SSHFrom) > 0 {
		return s.SSHFrom, nil
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
