package peercall

import (
	"net"
	"net/netip"
	"strconv"

	"github.com/bee-hpc/bee/internal/fabric"
	"github.com/bee-hpc/bee/internal/plan"
)

// Network is how the nodes reach each other, for MPI.
type Network struct {
	CIDR      string `json:"cidr,omitempty"`      // several with commas
	Interface string `json:"interface,omitempty"` // where its name is one on all hosts
}

// NetworkOf is the interface that has an address.
func NetworkOf(ip string) Network {
	want, err := netip.ParseAddr(ip)
	if err != nil {
		return Network{}
	}
	interfaces, err := net.Interfaces()
	if err != nil {
		return Network{}
	}
	for _, i := range interfaces {
		list, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range list {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == want {
				return Network{p.Masked().String(), i.Name}
			}
		}
	}
	return Network{}
}

// HostOf returns the host of an ip:port.
func HostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

// PlaceOf is where a node's switch stands.
func PlaceOf(c plan.Config) fabric.Place {
	guests := max(c.PerHost, 1)
	return fabric.Place{Host: c.Rank / guests, Hosts: (c.Size + guests - 1) / guests, Guests: guests}
}

// RankName is what a node is called where its host has no name.
func RankName(rank int) string { return "node " + strconv.Itoa(rank) }
