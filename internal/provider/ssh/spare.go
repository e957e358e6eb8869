package ssh

import (
	"context"
	"time"
)

// spareFor is how long a connection is kept that nobody uses: whoever has asked a site
// what it can do often wants its hosts next, and a login takes a dozen times the way
// there and back.
const spareFor = 10 * time.Second

// again gives a connection to a host for the caller's own use, one that was made a moment
// ago where there is one.
func (p *provider) again(ctx context.Context, host string) (*link, error) {
	p.mu.Lock()
	l := p.spare[host]
	delete(p.spare, host)
	p.mu.Unlock()
	if l.usable() {
		return l, nil
	}
	return p.connect(ctx, host)
}

// keep keeps a connection for who wants it again, for a while.
func (p *provider) keep(l *link) {
	if l.leave != nil { // others keep it, or Logins
		l.Close()
		return
	}
	p.mu.Lock()
	if p.spare == nil {
		p.spare = map[string]*link{}
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
