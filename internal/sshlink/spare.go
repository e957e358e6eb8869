package sshlink

import (
	"context"
	"time"
)

// spareFor is how long a connection is kept that nobody uses: a caller that has asked a site
// what it can do often wants its hosts next, and a login takes a dozen times the way
// there and back.
const spareFor = 10 * time.Second

// Again returns a connection to a host for the caller's own use: one that Keep has, or a new
// one.
func (p *Client) Again(ctx context.Context, host string) (*Link, error) {
	p.mu.Lock()
	l := p.spare[host]
	delete(p.spare, host)
	p.mu.Unlock()
	if l.Usable() {
		return l, nil
	}
	return p.Connect(ctx, host)
}

// Keep keeps a connection for a while, for Again.
func (p *Client) Keep(l *Link) {
	if l.leave != nil { // others keep it, or Logins
		l.Close()
		return
	}
	p.mu.Lock()
	if p.spare == nil {
		p.spare = map[string]*Link{}
	}
	other := p.spare[l.host]
	p.spare[l.host] = l
	p.mu.Unlock()
	if other != nil {
		other.Close()
	}
	time.AfterFunc(spareFor, func() {
		p.mu.Lock()
		unused := p.spare[l.host] == l
		if unused {
			delete(p.spare, l.host)
		}
		p.mu.Unlock()
		if unused {
			l.Close()
		}
	})
}
