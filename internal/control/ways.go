package control

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

// How long one host tries to reach another, and how long that one listens: it
// begins before, and either may be far from here.
const (
	reachTime  = 3 * time.Second
	listenTime = 15 * time.Second
)

// breaksInARow is how often a way may break before it is not used any more: a
// network that takes a call and loses what follows would do that each time.
const breaksInARow = 2

// Ways is what has been found out of how machines reach each other, and who uses that.
type Ways struct {
	mu    sync.Mutex
	pairs map[[2]string]*pair
	// doors let in those who bring files to a site: see enter.
	doors map[string]*semaphore.Weighted
	// meet, if set, is in place of that function: tests have no network.
	meet func(ctx context.Context, listener, caller driver.Meeter) (*way, error)
}

// pair is what is known of two machines.
type pair struct {
	door   string // which of them listened when they last met
	breaks int    // of their ways, in a row
	closed error  // why there is none between them
}

// mostBring is how many runs at a time bring their files to a site: each takes some
// megabytes of memory, here and on the site's login node.
const mostBring = 16

// enter waits until a run may bring its files to a site; leave has to be called then.
func (w *Ways) enter(ctx context.Context, site string) (leave func(), err error) {
	w.mu.Lock()
	if w.doors == nil {
		w.doors = map[string]*semaphore.Weighted{}
	}
	if w.doors[site] == nil {
		w.doors[site] = semaphore.NewWeighted(mostBring)
	}
	door := w.doors[site]
	w.mu.Unlock()
	if err := door.Acquire(ctx, 1); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { door.Release(1) }, nil
}

// between gives the pair at both ends of a route, to be used under the lock.
func (w *Ways) between(r route) *pair {
	key := [2]string{min(r.from.Machine(), r.to.Machine()), max(r.from.Machine(), r.to.Machine())}
	if w.pairs == nil {
		w.pairs = map[[2]string]*pair{}
	}
	if w.pairs[key] == nil {
		w.pairs[key] = &pair{}
	}
	return w.pairs[key]
}

// used notes how a way did.
func (w *Ways) used(r route, broke bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.between(r)
	if !broke {
		p.breaks = 0
	} else if p.breaks++; p.breaks == breaksInARow {
		p.closed = &core.Error{Kind: core.Unsupported, Err: errors.New("the way between them broke again and again")}
	}
}

// way is a connection between two machines.
type way struct {
	name, addr string
	ends       []driver.End
}

func (w *way) close() {
	for _, e := range w.ends {
		e.Close()
	}
}

// open has the two ends of a route meet: the one that receives listens, or else the
// other. Unsupported: neither reaches the other, which is remembered.
func (w *Ways) open(ctx context.Context, r route) (*way, error) {
	w.mu.Lock()
	known := *w.between(r)
	w.mu.Unlock()
	if known.closed != nil {
		return nil, known.closed
	}
	listener, caller := r.to, r.from
	if known.door == caller.Machine() {
		listener, caller = caller, listener
	}
	meet := meet
	if w.meet != nil {
		meet = w.meet
	}
	way, err := meet(ctx, listener, caller)
	if core.IsKind(err, core.Unsupported) {
		first := err
		listener, caller = caller, listener
		if way, err = meet(ctx, listener, caller); core.IsKind(err, core.Unsupported) {
			err = &core.Error{Kind: core.Unsupported, Op: "neither reaches the other", Err: fmt.Errorf("%w; %w", first, err)}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch p := w.between(r); {
	case err == nil:
		p.door = listener.Machine()
	case core.IsKind(err, core.Unsupported):
		p.closed = err
	}
	return way, err
}

// meet has two machines meet, with keys that are made for that and kept nowhere.
func meet(ctx context.Context, listener, caller driver.Meeter) (*way, error) {
	w := &way{name: rand.Text()}
	err := w.join(ctx, listener, caller)
	if err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *way) join(ctx context.Context, listener, caller driver.Meeter) error {
	ca, err := wire.NewAuthority()
	if err != nil {
		return err
	}
	end := func(m driver.Meeter, name string, addrs []string, limit time.Duration) (driver.End, error) {
		cert, key, err := ca.Issue(name)
		if err != nil {
			return nil, err
		}
		e, err := m.Meet(ctx, driver.Meeting{Name: w.name, Addrs: addrs, CA: ca.Certificate(), Cert: cert, Key: key, Limit: limit})
		if err != nil {
			return nil, unable(m, err)
		}
		w.ends = append(w.ends, e)
		return e, nil
	}
	door, err := end(listener, wire.DoorName, nil, listenTime)
	if err != nil {
		return err
	}
	call, err := end(caller, "caller", door.Addrs(), reachTime)
	if err != nil {
		return err
	}
	if w.addr, err = call.Met(); err == nil {
		_, err = door.Met()
	}
	return err
}

// unable is the error of an agent that takes part in no meeting: only one that does
// not answer may do so later.
func unable(m driver.Meeter, err error) error {
	switch core.KindOf(err) {
	case core.Transient, core.Lost, core.Stopped:
		return err
	}
	if ctxEnded(err) {
		return err
	}
	return &core.Error{Kind: core.Unsupported, Op: "use the agent on", Object: m.Machine(), Err: err}
}
