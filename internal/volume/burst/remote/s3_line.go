package remote

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// silent is for how long nothing may come or go by a connection, and piece is how many bytes
// pass at a time.
const (
	silent = 2 * time.Minute
	piece  = 16 << 10
)

// line is a client for requests whose bytes pass through rate. A server that sends nothing for
// that long is away.
func line(ctx context.Context, rate *Rate) *http.Client {
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	return lineBy(ctx, rate, http.ProxyFromEnvironment, dialer.DialContext)
}

// relayed is the endpoint of requests that pass a relay. They are signed by keys that mean nothing, and the relay signs
// them by others.
const relayed = "http://relay.invalid"

// RelayHasNoKeys is the code of a relay's answer where the submitting machine has no valid credentials.
const RelayHasNoKeys = "RelayHasNoCredentials"

var relayedKeys = core.BucketKeys{ID: "relay", Secret: "relay", Region: "us-east-1"}

// relayLine is a line to a relay.
func relayLine(ctx context.Context, rate *Rate, dial Dial) *http.Client {
	return lineBy(ctx, rate, nil, func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := dial(ctx)
		if err != nil {
			return nil, noRelay{err}
		}
		return c, nil
	})
}

// noRelay is about a relay that is not there.
type noRelay struct{ error }

// Unwrap returns the cause.
func (n noRelay) Unwrap() error { return n.error }

func lineBy(ctx context.Context, rate *Rate, proxy func(*http.Request) (*url.URL, error), connect func(ctx context.Context, network, addr string) (net.Conn, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy: proxy, TLSHandshakeTimeout: 30 * time.Second, ResponseHeaderTimeout: silent, DisableCompression: true,
			MaxIdleConnsPerHost: atOnce, IdleConnTimeout: silent / 2,
			DialContext: func(dial context.Context, network, addr string) (net.Conn, error) {
				c, err := connect(dial, network, addr)
				if err != nil {
					return nil, err
				}
				return &limited{c, ctx, rate}, nil
			},
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // as AWS's own client
	}
}

// limited is a connection whose bytes pass through a Rate.
type limited struct {
	net.Conn
	ctx  context.Context
	rate *Rate
}

// Read implements net.Conn.
func (l *limited) Read(p []byte) (int, error) {
	if err := l.Conn.SetReadDeadline(time.Now().Add(silent)); err != nil {
		return 0, err
	}
	n, err := l.Conn.Read(p[:min(len(p), piece)])
	if werr := l.rate.Wait(l.ctx, n); werr != nil && err == nil {
		err = werr
	}
	return n, err
}

// Write implements net.Conn.
func (l *limited) Write(p []byte) (done int, err error) {
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), piece)]
		if err = l.rate.Wait(l.ctx, len(part)); err != nil {
			break
		}
		if err = l.Conn.SetDeadline(time.Now().Add(silent)); err != nil {
			break
		}
		var n int
		n, err = l.Conn.Write(part)
		done, p = done+n, p[n:]
	}
	return done, err
}
