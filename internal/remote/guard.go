package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
)

// guard keeps connections from addresses that no server may lead to: a link-local one is that
// of this machine's own services, as the metadata of clouds with their credentials. Loopback
// and private ones are for servers that the user has named.
type guard struct {
	named string // host:port that the user has named; "": any
	away  bool   // this is not the user's machine: no server on loopback is the one that was named
	mu    sync.Mutex
	// proxies are those of this machine's configuration, which reach what they like.
	proxies map[string]bool
}

func newGuard(host, port string) *guard {
	return &guard{named: net.JoinHostPort(host, port), proxies: map[string]bool{}}
}

// proxy is that of the environment, as for all programs.
func (g *guard) proxy(r *http.Request) (*url.URL, error) {
	u, err := http.ProxyFromEnvironment(r)
	if u != nil {
		port := u.Port()
		if port == "" {
			port = map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
		}
		if port == "" {
			port = "80"
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		g.proxies[net.JoinHostPort(u.Hostname(), port)] = true
	}
	return u, err
}

// dial connects to host:port, whose addresses are looked at once they are known.
func (g *guard) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.mu.Lock()
	free := g.proxies[addr]
	g.mu.Unlock()
	d := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	if g.away { // else the user's machine fetches it
		d.Timeout = 10 * time.Second
	}
	if !free {
		d.Control = func(_, at string, _ syscall.RawConn) error {
			ip, err := netip.ParseAddrPort(at)
			if err != nil {
				return err
			}
			return g.refuse(ip.Addr(), g.named == "" || addr == g.named)
		}
	}
	return d.DialContext(ctx, network, addr)
}

// literal refuses an address that is written in place of a host's name: a proxy would reach it.
func (g *guard) literal(host, port string) error {
	if port == "" {
		port = "443"
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return nil // it is a name
	}
	return g.refuse(ip, net.JoinHostPort(host, port) == g.named)
}

func (g *guard) refuse(at netip.Addr, named bool) error {
	if g.away && at.Unmap().IsLoopback() {
		return refusedAddress{at}
	}
	return refuse(at, named)
}

// refusedAddress is the error of an address that nothing is fetched from.
type refusedAddress struct{ at netip.Addr }

func (r refusedAddress) Error() string {
	return fmt.Sprintf("%s is an address that no server may lead to", r.at)
}

// RetryableError has AWS's client not try again.
func (refusedAddress) RetryableError() bool { return false }

// refuse looks at an address; named is set where the user has named its host.
func refuse(at netip.Addr, named bool) error {
	at = at.Unmap().WithZone("")
	shared := netip.MustParsePrefix("100.64.0.0/10")
	switch {
	case at.IsLinkLocalUnicast(), at.IsMulticast(), at.IsUnspecified(), at.IsInterfaceLocalMulticast():
		return refusedAddress{at}
	case !named && (at.IsLoopback() || at.IsPrivate() || shared.Contains(at)):
		return refusedAddress{at}
	}
	return nil
}
