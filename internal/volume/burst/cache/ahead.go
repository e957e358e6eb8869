package cache

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

const (
	// piece is what is fetched at a time ahead of programs that read a file in order.
	piece = 512 << 10
	// mostAhead is how many bytes of one file are fetched ahead at most, and mostOfAll of all files: more than most lines
	// have on the way.
	mostAhead, mostOfAll = 4 << 20, 16 << 20
)

// order is how programs read a file.
type order struct {
	next   int64 // where a program that reads in order continues
	window int64 // bytes to fetch ahead: 0 for one that reads here and there
	ahead  int64 // up to where that was done
	waited bool  // a program has waited for what was fetched ahead: more is needed
}

// follow notes a read, and fetches what comes after it where the reads before it were in order. The window grows as
// long as programs wait, so up to what the line has on the way.
func (c *Cache) follow(of Reader, off, end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.file(of.Ino, of.Version)
	o := &f.order
	inOrder := off == o.next && off > 0
	o.next = end
	if !inOrder || end == of.Version.Size {
		o.window, o.ahead, o.waited = 0, 0, false
		return
	}
	switch {
	case o.window == 0:
		o.window = max(2*(end-off), piece)
	case o.waited:
		o.window *= 2
	}
	o.window, o.waited = min(o.window, mostAhead), false
	to := min(end+o.window, of.Version.Size)
	for from := max(o.ahead, (end+pageSize-1)/pageSize*pageSize); from < to && c.arriving < mostOfAll && time.Since(f.unkept) > retryAfter; {
		until := min((from/piece+1)*piece, of.Version.Size)
		if until > to {
			break
		}
		next := c.nextOf(f, of, from, until, from)
		switch {
		case next.mine:
			size := next.flight.to - next.flight.from
			c.arriving += size
			go func() {
				core.BestEffort(nil, core.Caught(func() error { c.fetch(context.Background(), next.flight, of); return nil })) // who waits for it fetches it
				c.mu.Lock()
				defer c.mu.Unlock()
				c.arriving -= size
			}()
			from = next.flight.to
		case next.flight != nil:
			from = next.flight.to
		default:
			from = next.end
		}
		o.ahead = from
	}
}

// waits notes that a program waits for a part of a file. Callers do not hold the lock.
func (c *Cache) waits(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.order.waited = true
}
