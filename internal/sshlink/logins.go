package sshlink

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Logins are connections to login nodes that all providers and leases of a process
// share. A login node is many people's, and its staff count logins: a thousand runs
// that wait in its queue have one. The zero value is ready for use.
type Logins struct {
	mu sync.Mutex
	at map[string]*shared
}

// shared is the one connection to a login node.
type shared struct {
	link  *Link // nil: there is none
	users int
	// answers is set once there was one.
	answers bool
	// trying, if not nil, is a login that continues.
	trying *trying
}

// trying is a login for all who have asked for it meanwhile.
type trying struct {
	done chan struct{}
	err  error
	// left is set where the caller that logged in went away: that says nothing of the host.
	left bool
}

// join gives a connection of the caller's own over the shared one, which is made
// by connect where there is none.
func (g *Logins) join(ctx context.Context, key string, connect func(context.Context) (*Link, error)) (*Link, error) {
	for {
		mine, t, first := g.find(key)
		if mine != nil {
			return mine, nil
		}
		if first {
			l, err := connect(ctx)
			g.made(key, t, l, err, ctx.Err() != nil)
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if t.err != nil && (first || !t.left) {
			return nil, t.err
		}
	}
}

// find gives the connection, or else the login that continues; first means that it
// is the caller's to carry out.
func (g *Logins) find(key string) (mine *Link, t *trying, first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.at == nil {
		g.at = map[string]*shared{}
	}
	s := g.at[key]
	if s == nil {
		s = &shared{}
		g.at[key] = s
	}
	if s.link != nil && !s.link.broken() {
		s.users++
		return g.user(key, s.link), nil, false
	}
	if s.trying == nil {
		s.trying, first = &trying{done: make(chan struct{})}, true
	}
	return nil, s.trying, first
}

// made reports how a login ended.
func (g *Logins) made(key string, t *trying, l *Link, err error, left bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.at[key]
	s.trying = nil
	if t.err, t.left = err, left; err == nil {
		s.link, s.users, s.answers = l, 0, true
		go func() {
			<-l.Done()
			l.Close()
		}()
		g.closeUnused(key, l) // should all who wanted it have gone away
	}
	close(t.done)
}

// answered reports whether there was a connection.
func (g *Logins) answered(key string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[key].answers
}

// user is a shared connection as one of its users has it.
func (g *Logins) user(key string, l *Link) *Link {
	return &Link{Peer: l.Peer, wide: l.wide, host: l.host, cmd: l.cmd, errs: l.errs, adding: l.adding, leave: func() { g.left(key, l) }}
}

// left has a user of a connection gone. The last one's is kept for a while: see
// spareFor.
func (g *Logins) left(key string, l *Link) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.at[key]; s.link == l {
		if s.users--; s.users == 0 {
			g.closeUnused(key, l)
		}
	}
}

// closeUnused closes a connection that nobody will have used for a while.
func (g *Logins) closeUnused(key string, l *Link) {
	time.AfterFunc(spareFor, func() {
		g.mu.Lock()
		unused := g.at[key].link == l && g.at[key].users == 0
		if unused {
			g.at[key].link = nil
		}
		g.mu.Unlock()
		if unused {
			l.Close()
		}
	})
}

// shareable gives the connections that a provider's are among, and the name of its
// own; nil where it has them for itself: those to hosts that compute carry much,
// and nobody else wants them.
func (p *Client) shareable(host string) (*Logins, string) {
	if p.s.Logins == nil {
		return nil, ""
	}
	return p.s.Logins, fmt.Sprintf("%q %q %q", p.s.Program, host, p.s.Options)
}
