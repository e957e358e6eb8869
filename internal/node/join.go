package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/protocol"
	"github.com/bee-hpc/bee/internal/wire"
)

// follow is the life of a node that is not the head: it joins, and does what
// the head says, until the head is done or lost.
func (n *node) follow(ctx context.Context, l net.Listener) error {
	head, reached, local, err := n.dialHead(ctx)
	if err != nil {
		return err
	}
	defer head.Close()
	n.mu.Lock()
	n.peers[0] = head
	n.mu.Unlock()
	go func() {
		head.Serve(ctx, func(ctx context.Context, method string, s *wire.Stream) error { //nolint:errcheck // its end is seen below
			return n.handle(ctx, head, method, s)
		})
	}()
	port := portOf(l.Addr().String())
	join := joinRequest{Rank: n.config.Rank, Reached: reached, Cores: cores(n.config), Arch: runtime.GOARCH,
		Addrs: []string{net.JoinHostPort(local, port)}, Network: networkOf(local)}
	if err := head.Call(ctx, callJoin, join, nil); err != nil {
		return err
	}
	select {
	case <-head.Done():
		return nil // done or lost: either way nothing of us may stay
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// dialHead tries all of the head's addresses at once. TLS tells the head from
// a stranger at the same address.
func (n *node) dialHead(ctx context.Context) (peer *wire.Peer, reached, local string, err error) {
	type found struct {
		conn *tls.Conn
		addr string
		err  error
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	results := make(chan found, len(n.config.Head))
	for _, addr := range n.config.Head {
		go func() {
			c, err := n.dialTLS(ctx, addr, protocol.NodeName(0))
			results <- found{c, addr, err}
		}()
	}
	var errs []error
	for range n.config.Head {
		f := <-results
		if f.err != nil {
			errs = append(errs, f.err)
			continue
		}
		local := f.conn.LocalAddr().(*net.TCPAddr).IP.String()
		peer, err := wire.NewPeer(f.conn, true, "the head ("+f.addr+")")
		return peer, f.addr, local, err
	}
	return nil, "", "", &core.Error{Kind: core.Lost, Op: "join the head at", Object: strings.Join(n.config.Head, ", "), Err: errors.Join(errs...)}
}

func (n *node) dialTLS(ctx context.Context, addr, name string) (*tls.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: n.identity.Client(name)}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return c.(*tls.Conn), nil
}

// peer gives the connection to another node, made when it is first needed.
func (n *node) peer(ctx context.Context, rank int) (*wire.Peer, error) {
	n.mu.Lock()
	p, ok := n.peers[rank]
	var m member
	if rank < len(n.members) {
		m = n.members[rank]
	}
	n.mu.Unlock()
	if ok {
		select {
		case <-p.Done():
		default:
			return p, nil
		}
	}
	if m.Addr == "" {
		return nil, &core.Error{Kind: core.NotFound, Op: "reach node", Object: strconv.Itoa(rank), Err: errNoMember}
	}
	c, err := n.dialTLS(ctx, m.Addr, protocol.NodeName(rank))
	if err != nil {
		return nil, &core.Error{Kind: core.Lost, Op: "reach host", Object: fmt.Sprintf("%s (%s) from %s", m.Name, m.Addr, n.config.Host.Name), Err: err,
			Remedy: "The hosts of a run must reach each other on any port: open the firewall between them, or name another network by `network:`."}
	}
	p, err = wire.NewPeer(c, true, m.Name)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if other, ok := n.peers[rank]; ok { // someone was quicker
		select {
		case <-other.Done():
		default:
			p.Close()
			return other, nil
		}
	}
	n.peers[rank] = p
	return p, nil
}

// listenAddrs are the addresses at which others may find this node.
func listenAddrs(c protocol.Config, l net.Listener) []string {
	port := portOf(l.Addr().String())
	var addrs []string
	for _, a := range append(append([]string{}, c.Host.Addrs...), interfaceAddrs(c.Network)...) {
		full := net.JoinHostPort(a, port)
		known := false
		for _, b := range addrs {
			known = known || b == full
		}
		if !known {
			addrs = append(addrs, full)
		}
	}
	return addrs
}

// interfaceAddrs are this host's addresses, restricted to an interface's name
// or a CIDR where one is given.
func interfaceAddrs(network string) []string {
	prefix, err := netip.ParsePrefix(network)
	byPrefix := err == nil
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var addrs []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || network != "" && !byPrefix && i.Name != network {
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

// networkOf is the CIDR of the interface that has an address.
func networkOf(ip string) string {
	want, err := netip.ParseAddr(ip)
	if err != nil {
		return ""
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == want {
			return p.Masked().String()
		}
	}
	return ""
}

func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

func hostOf(addr string) string {
	host, _, _ := net.SplitHostPort(addr)
	return host
}

func cores(c protocol.Config) int {
	if c.Host.Slots > 0 {
		return c.Host.Slots
	}
	return runtime.NumCPU()
}
