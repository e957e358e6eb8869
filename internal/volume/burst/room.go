package burst

import (
	"context"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// Shares of the room, in percent of which is undrained: from slowed on, writers are
// slowed towards the rate of the drain; from full on they wait.
const (
	slowed = 70
	full   = 95
)

// room waits until so many bytes more fit into the journal. ENOSPC means that waiting
// does not help.
func (v *Volume) room(ctx context.Context, bytes int64) error {
	most := v.o.Room / 100 * full
	if bytes > most {
		return syscall.ENOSPC
	}
	for {
		size := v.log.Size() + bytes
		if size <= v.o.Room/100*slowed {
			return nil
		}
		if err := v.reclaim(size - v.o.Room/100*slowed); err != nil {
			return err
		}
		size = v.log.Size() + bytes
		if size <= most {
			return v.slow(ctx, bytes, size)
		}
		if !v.canWait() {
			return syscall.ENOSPC
		}
		if err := v.pause(ctx); err != nil {
			return err
		}
	}
}

// slow delays a write: not at all at the share slowed, and by the time that the drain
// takes for as many bytes at the share full.
func (v *Volume) slow(ctx context.Context, bytes, size int64) error {
	over := float64(size-v.o.Room/100*slowed) / float64(max(v.o.Room/100*(full-slowed), 1))
	v.mu.Lock()
	rate := v.perSec
	v.mu.Unlock()
	if over <= 0 || rate <= 0 {
		return nil
	}
	return core.Sleep(ctx, min(time.Duration(over*float64(bytes)/rate*float64(time.Second)), time.Second))
}

// canWait reports whether the drain will make room. What was written and not yet queued
// is queued.
func (v *Volume) canWait() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.state.Queue()) > 0 {
		return true
	}
	if err := v.putAll(func(n *meta.Node) bool { return n.Fresh > 0 }); err != nil {
		return false
	}
	return len(v.state.Queue()) > 0
}

// pause waits for the drain to do something.
func (v *Volume) pause(ctx context.Context) error {
	v.mu.Lock()
	news := v.news
	v.mu.Unlock()
	again := time.NewTimer(time.Second)
	defer again.Stop()
	select {
	case <-news:
		return nil
	case <-again.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// reclaim frees at least so many bytes of the journal, where it can: segments without
// anything in use, and then content that the remote has, of the oldest segments first.
func (v *Volume) reclaim(bytes int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.forgetAll(0)
	numbers, sizes := v.log.Segments()
	used := v.used()
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
		if len(users) == 0 || !v.evictable(users) {
			continue
		}
		for n := range users {
			if !n.Local && len(n.Extents) == 0 {
				continue // it was before
			}
			if _, err := v.change(meta.Change{Do: meta.DoEvict, Ino: n.Ino}); err != nil {
				return err
			}
		}
		gain += sizes[number]
	}
	if gain < bytes/8 && gain < v.log.Size()/8 { // not worth an index now
		return nil
	}
	return v.writeIndex()
}

// evictable reports whether the remote has all content of some nodes, and nobody is about
// to change them. Callers hold the lock.
func (v *Volume) evictable(users map[*meta.Node]bool) bool {
	for n := range users {
		if n == nil || !n.Clean() || v.files[n.Ino] != nil && v.files[n.Ino].writers > 0 {
			return false
		}
	}
	return true
}

// indexAfter is how many bytes of records are replayed at most, about.
const indexAfter = 256 << 20

// tidy writes an index once there is much to replay.
func (v *Volume) tidy() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.log.Unindexed() < min(indexAfter, v.o.Room/4) {
		return nil
	}
	return v.writeIndex()
}

// writeIndex writes an index, and removes segments that nothing is in. Callers hold the lock.
func (v *Volume) writeIndex() error {
	used := v.used()
	raw, err := v.state.Encode()
	if err != nil {
		return err
	}
	err = v.log.WriteIndex(v.log.Last(), raw, func(number uint64) bool { return len(used[number]) > 0 })
	clear(v.verified)
	v.report()
	return err
}

// used gives the nodes whose content is in each segment; nil stands for a version that
// is queued. Callers hold the lock.
func (v *Volume) used() map[uint64]map[*meta.Node]bool {
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
	v.state.Nodes(func(n *meta.Node) { add(n.Extents, n) })
	for _, o := range v.state.Queue() {
		add(o.Extents, nil)
	}
	return used
}
