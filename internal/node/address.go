package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/procid"
)

// listeners are a node's TCP sockets for the other nodes.
type listeners []net.Listener

// listen opens them: on all addresses, or on those of a network only.
func listen(network string) (listeners, error) {
	hosts := []string{""}
	if network != "" {
		if hosts = interfaceAddrs(network); len(hosts) == 0 {
			return nil, &core.Error{
				Kind: core.Unsupported, Op: "listen on network", Object: network, Err: errors.New("this host has no such interface, or no address in it"),
				Remedy: "Let `network:` name an interface or an address range (such as 10.1.0.0/16) that every host of the site has.",
			}
		}
	}
	var ls listeners
	for _, h := range hosts {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort(h, "0"))
		if err != nil {
			ls.Close()
			return nil, fmt.Errorf("listen for the other nodes: %w", err)
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// Close closes all of them.
func (ls listeners) Close() {
	for _, l := range ls {
		l.Close()
	}
}

// addrs are the ip:port at which others may find this node, given ones first.
func (ls listeners) addrs(given []string) []string {
	var list []string
	known := map[string]bool{}
	add := func(host, port string) {
		if a := net.JoinHostPort(host, port); !known[a] {
			known[a] = true
			list = append(list, a)
		}
	}
	for _, l := range ls {
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			continue
		}
		if ip, err := netip.ParseAddr(host); err == nil && !ip.IsUnspecified() {
			add(host, port)
			continue
		}
		for _, a := range append(append([]string{}, given...), interfaceAddrs("")...) {
			add(a, port)
		}
	}
	return list
}

// at gives the ip:port of the socket that listens on an address.
func (ls listeners) at(ip string) []string {
	for _, l := range ls {
		host, port, err := net.SplitHostPort(l.Addr().String())
		if err != nil {
			continue
		}
		if a, err := netip.ParseAddr(host); err == nil && (a.IsUnspecified() || host == ip) {
			return []string{net.JoinHostPort(ip, port)}
		}
	}
	return ls.addrs(nil)
}

// interfaceAddrs are this host's addresses, restricted to an interface's name
// or a CIDR where one is given; loopback only where it is asked for.
func interfaceAddrs(network string) []string {
	prefix, err := netip.ParsePrefix(network)
	byPrefix := err == nil
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var addrs []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 && network == "" || network != "" && !byPrefix && i.Name != network {
			continue
		}
		list, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range list {
			p, err := netip.ParsePrefix(a.String())
			if err != nil || p.Addr().IsLinkLocalUnicast() || byPrefix && !prefix.Contains(p.Addr()) {
				continue
			}
			addrs = append(addrs, p.Addr().String())
		}
	}
	return addrs
}

// cores are those of the host that are this node's, where it has several.
func cores(c plan.Config) int {
	all := c.Host.Slots
	if all == 0 {
		all = runtime.NumCPU()
	}
	return max(all/max(c.PerHost, 1), 1)
}

// machine names the running kernel: hosts with the same one share processors.
func machine() string {
	boot, _ := procid.Boot()
	return boot
}
