// Package transfer brings files to sites and from them: by which route, again where a
// connection breaks, and never beyond the space that there is. It takes leases and stores,
// and knows nothing of runs, attempts or records.
package transfer

import (
	"context"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// Site is one end of transfers: the hosts of a lease.
type Site struct {
	Name   string
	Lease  driver.Lease
	Routes *Routes
	// Breaks is shared by all that travels to the site and from it.
	Breaks *Breaks
	// Progress returns what is called with the bytes that are done, of a phase and in all;
	// 0: not known.
	Progress func(p core.Phase, what string, total int64) func(done int64)
	// Record adds an event to the history of the run whose files these are.
	Record func(ctx context.Context, f event.Fields)
	// RecordRoute is Record, but for a route that is that of the last transfer between
	// its two ends.
	RecordRoute func(ctx context.Context, r event.Route)
}

// Machine names that on which a lease's files are: one elsewhere, or this one.
func Machine(l driver.Lease) string {
	if m := l.DirectTransfer(); m != nil {
		return m.Machine()
	}
	return ""
}

// Breaks notes when a connection to a site broke last.
type Breaks struct {
	mu   sync.Mutex
	last time.Time
}

// note calls record, unless a break was noted just now: one is that of all that travelled
// over the connection.
func (b *Breaks) note(record func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if time.Since(b.last) >= firstRest {
		record()
		b.last = time.Now()
	}
}
