package burst

import (
	"context"
	"errors"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
)

// locking has the locks of all clients, and those who wait for them. They are in memory only: after the
// process has died, each client comes back with those that it has, and nobody gets a new one before.
type locking struct {
	mu    sync.Mutex
	table *locks.Table
	news  chan struct{} // closed when a lock was released
	// waits is how many requests wait, by client.
	waits map[uint64]int
	// closed is until when clients of an earlier process come back with their locks, and set is called
	// before the first lock is set.
	closed time.Time
	set    func() error
}

// mostWaits bounds the requests for locks of one client that wait.
const mostWaits = 1 << 12

// newLocking makes a table that is closed for new locks for a while.
func newLocking(closed time.Duration) *locking {
	return &locking{table: locks.New(), news: make(chan struct{}), waits: map[uint64]int{}, closed: time.Now().Add(closed), set: func() error { return nil }}
}

// report wakes all who wait. Callers hold the lock.
func (l *locking) report() {
	close(l.news)
	l.news = make(chan struct{})
}

// release releases what an owner has on a file between two bytes.
func (l *locking) release(ino uint64, o locks.Owner, start, end uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.Unset(ino, o, start, end)
	l.report()
}

// any reports whether a client has a lock.
func (l *locking) any(client uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.table.Any(client)
}

// drop releases all that a client has.
func (l *locking) drop(client uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.table.Drop(client)
	l.report()
}

// reclaim sets the locks with which a client comes back, in the place of those that it had. Those of an earlier
// process are gone once others can get locks, who may have released them since. It reports whether the client has
// all of them; else it has none.
func (l *locking) reclaim(client uint64, list []locks.Held, earlier bool) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.report()
	l.table.Drop(client)
	if len(list) == 0 {
		return true, nil
	}
	if earlier && time.Until(l.closed) <= 0 {
		return false, nil
	}
	if err := l.first(); err != nil {
		return false, err
	}
	for _, h := range list {
		h.Lock.Owner.Client = client
		if h.Lock.Start > h.Lock.End || l.table.Conflict(h.Ino, h.Lock) != nil || l.table.Set(h.Ino, h.Lock) != nil {
			l.table.Drop(client)
			return false, nil
		}
	}
	return true, nil
}

// first notes that there are locks. Callers hold the lock.
func (l *locking) first() error {
	if l.set == nil {
		return nil
	}
	err := l.set()
	if err == nil {
		l.set = nil
	}
	return err
}

// acquire sets a lock, and waits for it where wait says so.
func (l *locking) acquire(ctx context.Context, ino uint64, want locks.Lock, wait bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	client := want.Owner.Client
	if l.waits[client] >= mostWaits {
		return syscall.ENOLCK
	}
	l.waits[client]++
	defer func() {
		if l.waits[client]--; l.waits[client] == 0 {
			delete(l.waits, client)
		}
	}()
	for {
		if ctx.Err() != nil {
			return syscall.EINTR
		}
		left := time.Until(l.closed)
		if left <= 0 {
			if l.table.Conflict(ino, want) == nil {
				break
			}
			if !wait {
				return syscall.EAGAIN
			}
		}
		if err := l.pause(ctx, left); err != nil {
			return err
		}
	}
	if err := l.first(); err != nil {
		return err
	}
	err := l.table.Set(ino, want)
	if errors.Is(err, locks.ErrMany) {
		err = syscall.ENOLCK
	}
	l.report() // part of it may have been a lock for writing before
	return err
}

// pause waits until something was released, or for a time that is positive. Callers hold the lock.
func (l *locking) pause(ctx context.Context, most time.Duration) error {
	news := l.news
	l.mu.Unlock()
	defer l.mu.Lock()
	var over <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-news:
	case <-over:
	case <-ctx.Done():
		return syscall.EINTR
	}
	return nil
}

// lock carries out a request about a lock.
func (v *Volume) lock(ctx context.Context, w who, q *calls.Request, p *calls.Reply) error {
	if q.Off < 0 || q.Size < q.Off || q.Mode > calls.LockNone {
		return syscall.EINVAL
	}
	if _, err := v.names.GetAttr(ctx, q.Ino); err != nil {
		return err
	}
	want := locks.Lock{
		Owner: locks.Owner{Client: w.client, Number: q.Owner, Whole: q.Flags&calls.Whole != 0},
		Start: uint64(q.Off), End: uint64(q.Size), Write: q.Mode == calls.LockWrite, PID: q.PID, // positive
	}
	switch {
	case q.Flags&calls.Test != 0:
		var err error
		p.Lock, err = v.locks.conflict(ctx, q.Ino, want)
		return err
	case q.Mode == calls.LockNone:
		v.locks.release(q.Ino, want.Owner, want.Start, want.End)
		return nil
	}
	return v.locks.acquire(ctx, q.Ino, want, q.Flags&calls.Wait != 0)
}

// conflict gives what keeps a lock from being set. A process of another client has no number here.
func (l *locking) conflict(ctx context.Context, ino uint64, want locks.Lock) (calls.HeldLock, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var other *locks.Lock
	for {
		other = l.table.Conflict(ino, want)
		left := time.Until(l.closed)
		if other != nil || left <= 0 {
			break
		}
		if err := l.pause(ctx, left); err != nil {
			return calls.HeldLock{}, err
		}
	}
	if other == nil {
		return calls.HeldLock{Type: calls.LockNone}, nil
	}
	is := calls.HeldLock{Type: calls.LockRead, Start: int64(min(other.Start, math.MaxInt64)), End: int64(min(other.End, math.MaxInt64))} // bounded
	if other.Write {
		is.Type = calls.LockWrite
	}
	if other.Owner.Client == want.Owner.Client {
		is.PID = other.PID
	}
	return is, nil
}
