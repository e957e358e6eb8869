package transfer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sync/semaphore"
)

// How long one host tries to reach another, and how long that one listens. The listener
// begins first, and this machine may have slow connections to both.
const (
	reachTime  = 3 * time.Second
	listenTime = 15 * time.Second
)

// breaksInARow is how often a direct connection may break before none is made any more: a
// network that takes a call and loses what follows would do that each time.
const breaksInARow = 2

// Routes is what is known of how machines reach each other, for all controllers of a
// process, and which transfers use that. The zero value is ready for use.
type Routes struct {
	mu    sync.Mutex
	pairs map[[2]string]*pair
	// noBucket has when machines did not reach the bucket of a store, by the names of both.
	noBucket map[[2]string]time.Time
	// permits are those of runs that stage files on a site: see Enter.
	permits map[string]*semaphore.Weighted
	// Connect, if set, is in place of a rendezvous: tests have no network.
	Connect func(ctx context.Context, listener, caller driver.Connector) (*Connection, error)
}

// pair is what is known of two machines.
type pair struct {
	listenSide string // which of them listened when they last met
	breaks     int    // of connections between them, in a row
	closed     error  // why there is none between them
}

// mostBring is how many runs at a time bring their files to a site: each takes some
// megabytes of memory, here and on the site's login node.
const mostBring = 16

// Enter waits until a run may stage its files on a site; leave has to be called then.
func (w *Routes) Enter(ctx context.Context, site string) (leave func(), err error) {
	w.mu.Lock()
	if w.permits == nil {
		w.permits = map[string]*semaphore.Weighted{}
	}
	if w.permits[site] == nil {
		w.permits[site] = semaphore.NewWeighted(mostBring)
	}
	permit := w.permits[site]
	w.mu.Unlock()
	if err := permit.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { permit.Release(1) }, nil
}

// unreachedTime is for how long a machine that did not reach a bucket does not try again.
const unreachedTime = 10 * time.Minute

// unreached reports whether a machine did not reach a bucket lately.
func (w *Routes) unreached(machine, bucket string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	at, is := w.noBucket[[2]string{machine, bucket}]
	return is && time.Since(at) < unreachedTime
}

// noteUnreached notes that a machine does not reach a bucket.
func (w *Routes) noteUnreached(machine, bucket string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.noBucket == nil {
		w.noBucket = map[[2]string]time.Time{}
	}
	w.noBucket[[2]string{machine, bucket}] = time.Now()
}

// between gives the pair at both ends of a route, to be used under the lock.
func (w *Routes) between(r Route) *pair {
	key := [2]string{min(r.From.Machine(), r.To.Machine()), max(r.From.Machine(), r.To.Machine())}
	if w.pairs == nil {
		w.pairs = map[[2]string]*pair{}
	}
	if w.pairs[key] == nil {
		w.pairs[key] = &pair{}
	}
	return w.pairs[key]
}

// used notes whether a connection broke.
func (w *Routes) used(r Route, broke bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.between(r)
	if !broke {
		p.breaks = 0
	} else if p.breaks++; p.breaks == breaksInARow {
		p.closed = &core.Error{Kind: core.Unsupported, Err: errors.New("the way between them broke again and again")}
	}
}

// Connection is one between two machines.
type Connection struct {
	Name, Addr string
	Ends       []driver.End
}

func (w *Connection) close() {
	for _, e := range w.Ends {
		e.Close()
	}
}

// open connects the two ends of a route: the one that receives listens, or else the
// other. Unsupported: neither reaches the other, which is remembered.
func (w *Routes) open(ctx context.Context, r Route) (*Connection, error) {
	w.mu.Lock()
	known := *w.between(r)
	w.mu.Unlock()
	if known.closed != nil {
		return nil, known.closed
	}
	listener, caller := r.To, r.From
	if known.listenSide == caller.Machine() {
		listener, caller = caller, listener
	}
	rendezvous := rendezvous
	if w.Connect != nil {
		rendezvous = w.Connect
	}
	connection, err := rendezvous(ctx, listener, caller)
	if core.IsKind(err, core.Unsupported) {
		first := err
		listener, caller = caller, listener
		if connection, err = rendezvous(ctx, listener, caller); core.IsKind(err, core.Unsupported) {
			err = &core.Error{Kind: core.Unsupported, Op: "neither reaches the other", Err: fmt.Errorf("%w; %w", first, err)}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch p := w.between(r); {
	case err == nil:
		p.listenSide = listener.Machine()
	case core.IsKind(err, core.Unsupported):
		p.closed = err
	}
	return connection, err
}

// rendezvous connects two machines, with keys that are made for that and kept nowhere.
func rendezvous(ctx context.Context, listener, caller driver.Connector) (*Connection, error) {
	w := &Connection{Name: rand.Text()}
	err := w.join(ctx, listener, caller)
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *Connection) join(ctx context.Context, listener, caller driver.Connector) error {
	ca, err := wire.NewAuthority()
	if err != nil {
		return err
	}
	end := func(m driver.Connector, name string, addrs []string, limit time.Duration) (driver.End, error) {
		cert, key, err := ca.Issue(name)
		if err != nil {
			return nil, err
		}
		e, err := m.Rendezvous(ctx, driver.RendezvousSpec{Name: w.Name, Addrs: addrs, CA: ca.Certificate(), Cert: cert, Key: key, Limit: limit})
		if err != nil {
			return nil, unable(m, err)
		}
		w.Ends = append(w.Ends, e)
		return e, nil
	}
	listening, err := end(listener, wire.ListenerName, nil, listenTime)
	if err != nil {
		return err
	}
	call, err := end(caller, "caller", listening.Addrs(), reachTime)
	if err != nil {
		return err
	}
	if w.Addr, err = call.Met(); err == nil {
		_, err = listening.Met()
	}
	return err
}

// unable is the error of an agent that takes part in no rendezvous: only one that does
// not answer may do so later.
func unable(m driver.Connector, err error) error {
	switch core.KindOf(err) {
	case core.Transient, core.Lost, core.Stopped:
		return err
	}
	if core.Interrupted(err) {
		return err
	}
	return &core.Error{Kind: core.Unsupported, Op: "use the agent on", Object: m.Machine(), Err: err}
}
