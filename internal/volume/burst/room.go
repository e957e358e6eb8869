package burst

import (
	"context"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/cache"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// Shares of the room, in percent of which is undrained: from slowed on, writers are
// slowed towards the rate of the drain; from full on they wait.
const (
	slowed = 70
	full   = 95
	// least is the share that what was read keeps against what was written and is drained.
	least = 20
)

// balanceEvery is how often room for what is read is made in the journal at most.
const balanceEvery = 10 * time.Second

// room is the space of the journal on this host's disk, and how writers wait for it.
type room struct {
	journal *journal
	size    int64   // most bytes of the journal
	perSec  float64 // bytes that the drain frees in a second, guarded by the journal's lock
	// turn is whose turn it is: from slowed on, writers pass one after the other, in their order. So all of
	// them together are as fast as the drain, and none waits for ever behind smaller writes.
	turn chan struct{}
	// refused is the error for writers while the remote refuses what would make room; nil: it never does.
	refused func() error
	// cache has what was read of the remote, and goes before anything that was written; nil: there is none.
	cache    *cache.Cache
	balanced time.Time
}

// cached is how many bytes the cache has.
func (r *room) cached() int64 {
	if r.cache == nil {
		return 0
	}
	return r.cache.Size()
}

// share is so many percent of the room, in bytes.
func (r *room) share(percent int64) int64 { return r.size / 100 * percent }

// forCache is how many bytes the cache may have now: what the journal leaves of the room up to the share slowed. Below
// zero there is none.
func (r *room) forCache() int64 { return r.share(slowed) - r.journal.log.Size() }

// taken is how many bytes of the room are taken.
func (r *room) taken() int64 { return r.journal.log.Size() + r.cached() }

// release frees bytes of the cache, and reports whether there were some.
func (r *room) release(bytes int64) bool { return r.cache != nil && r.cache.Shrink(bytes, 0) > 0 }

// free makes room for so many bytes above the share slowed: in the cache, but for its least share, then in what was
// drained, and then in all of the cache.
func (r *room) free(bytes int64) error {
	above := func() int64 { return r.taken() + bytes - r.share(slowed) }
	if over := above(); over > 0 && r.cache != nil {
		r.cache.Shrink(over, r.share(least))
	}
	if over := above(); over > 0 {
		if err := r.reclaim(over); err != nil {
			return err
		}
	}
	if over := above(); over > 0 {
		r.release(over)
	}
	return nil
}

// balance makes room for what is read where only what is drained takes it.
func (r *room) balance() error {
	if r.cache == nil || time.Since(r.balanced) < balanceEvery || !r.cache.Pressed() {
		return nil
	}
	if lacks := r.share(least) - r.forCache(); lacks > 0 {
		r.balanced = time.Now()
		return r.reclaim(lacks)
	}
	return nil
}

// wait waits until so many bytes more fit into the journal. ENOSPC means that waiting
// does not help, and so does the errno of what the remote refuses.
func (r *room) wait(ctx context.Context, bytes int64) error {
	most := r.share(full)
	if bytes > most {
		return syscall.ENOSPC
	}
	if len(r.turn) == 0 && r.taken()+bytes <= r.share(slowed) {
		return nil
	}
	select {
	case r.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r.turn }()
	for {
		if r.taken()+bytes <= r.share(slowed) {
			return nil
		}
		if err := r.free(bytes); err != nil {
			return err
		}
		size := r.taken() + bytes
		if size <= most {
			r.journal.mu.Lock()
			rate := r.perSec
			r.journal.mu.Unlock()
			return core.Sleep(ctx, r.delay(bytes, size, rate))
		}
		if err := r.drains(); err != nil {
			return err
		}
		if err := r.journal.pause(ctx); err != nil {
			return err
		}
	}
}

// drains is the error for a writer who waits for room that the drain will not make; nil: it may.
func (r *room) drains() error {
	if !r.canWait() {
		return syscall.ENOSPC
	}
	if r.refused == nil {
		return nil
	}
	return r.refused()
}

// delay is how long a write waits: not at all at the share slowed, and for the time that the drain takes for
// as many bytes at the share full.
func (r *room) delay(bytes, size int64, rate float64) time.Duration {
	over := float64(size-r.share(slowed)) / float64(max(r.share(full-slowed), 1))
	if over <= 0 || rate <= 0 {
		return 0
	}
	return time.Duration(min(over*float64(bytes)/rate, 1) * float64(time.Second))
}

// canWait reports whether the drain will make room. What was written and not yet queued
// is queued.
func (r *room) canWait() bool {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	if len(r.journal.state.Queue()) > 0 {
		return true
	}
	if err := r.journal.putAll(func(n *meta.Node) bool { return n.Fresh > 0 }); err != nil {
		return false
	}
	return len(r.journal.state.Queue()) > 0
}

// reclaim frees at least so many bytes of the journal, where it can: segments without
// anything in use, and then content that the remote has, of the oldest segments first.
func (r *room) reclaim(bytes int64) error {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	r.journal.forgetAll(0)
	numbers, sizes := r.journal.log.Segments()
	used := r.used()
	gain := int64(0)
	for _, number := range numbers {
		if len(used[number]) == 0 {
			gain += sizes[number]
		}
	}
	for _, number := range numbers {
		if gain >= bytes {
			break
		}
		users := used[number]
		if len(users) == 0 || !r.evictable(users) {
			continue
		}
		for n := range users {
			if !n.Local && len(n.Extents) == 0 {
				continue // it was before
			}
			if _, err := r.journal.change(meta.Change{Do: meta.DoEvict, Ino: n.Ino}); err != nil {
				return err
			}
		}
		gain += sizes[number]
	}
	if gain < bytes/8 && gain < r.journal.log.Size()/8 { // not worth an index now
		return nil
	}
	return r.writeIndex()
}

// evictable reports whether the remote has all content of some nodes, and nobody is about
// to change them. Callers hold the lock.
func (r *room) evictable(users map[*meta.Node]bool) bool {
	for n := range users {
		if n == nil || !n.Clean() || r.journal.files[n.Ino] != nil && r.journal.files[n.Ino].writers > 0 {
			return false
		}
	}
	return true
}

// indexAfter is how many bytes of records are replayed at most, about.
const indexAfter = 256 << 20

// tidy writes an index once there is much to replay.
func (r *room) tidy() error {
	r.journal.mu.Lock()
	defer r.journal.mu.Unlock()
	if r.journal.log.Unindexed() < min(indexAfter, r.size/4) {
		return nil
	}
	return r.writeIndex()
}

// writeIndex writes an index, and removes segments that nothing is in. Callers hold the lock.
func (r *room) writeIndex() error {
	used := r.used()
	raw, err := r.journal.state.Encode()
	if err != nil {
		return err
	}
	err = r.journal.log.WriteIndex(r.journal.log.Last(), raw, func(number uint64) bool { return len(used[number]) > 0 })
	clear(r.journal.verified)
	r.journal.report()
	return err
}

// used gives the nodes whose content is in each segment; nil stands for a version that
// is queued. Callers hold the lock.
func (r *room) used() map[uint64]map[*meta.Node]bool {
	used := map[uint64]map[*meta.Node]bool{}
	add := func(list []meta.Extent, n *meta.Node) {
		last := uint64(0)
		for _, e := range list {
			if e.Rec.Segment == last {
				continue
			}
			last = e.Rec.Segment
			if used[last] == nil {
				used[last] = map[*meta.Node]bool{}
			}
			used[last][n] = true
		}
	}
	r.journal.state.Nodes(func(n *meta.Node) { add(n.Extents, n) })
	for _, o := range r.journal.state.Queue() {
		add(o.Extents, nil)
	}
	return used
}
