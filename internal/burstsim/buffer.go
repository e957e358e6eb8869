package burstsim

import "github.com/bee-hpc/bee/internal/burstsim/flow"

const none int32 = -1

const unlimited = 1e15 // bytes a second

type chunkState uint8

const (
	absent chunkState = iota
	fetching
	undrained
	clean
)

type chunk struct {
	state      chunkState
	frequent   bool  // it was read again
	users      int32 // flows that read it
	prev, next int32 // in the list of clean chunks that nobody reads
	waiters    []func()
}

// list has clean chunks; the head was used last.
type list struct {
	head, tail int32
	bytes      float64
}

// ioNode is an I/O node. Clean chunks are evicted in the order of their last use, those
// that were read once before all others, so that a scan does not empty the buffer.
type ioNode struct {
	host             int
	free, undrained  float64 // bytes
	admit            flow.Resource
	recent, frequent list
	drains, fetches  []int32 // chunks to drain and to fetch, oldest first
	draining         int     // requests on the line
	fetching         int
	waiting          []func() bool // requests for room; false: still no room
}

// home returns the first I/O node of a chunk, and the second.
func (w *world) home(n int, id int32, written bool) (first, other int32) {
	count := int32(w.c.ioNodes)
	x := mix(uint64(id) ^ w.c.seed<<32)
	switch {
	case w.c.colocated && written:
		first = int32(n)
	case w.c.even:
		first = id % count
	default:
		first = int32(x % uint64(count))
	}
	if count == 1 || w.c.replicas == 1 {
		return first, first
	}
	if w.c.even {
		return first, (first + 1) % count
	}
	return first, (first + 1 + int32(mix(x)%uint64(count-1))) % count
}

// mix is the finaliser of SplitMix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// replica returns the I/O node of a chunk's i-th copy: first, other, and those after other
// except first.
func (w *world) replica(first, other int32, i int) int32 {
	if i == 0 {
		return first
	}
	count := int32(w.c.ioNodes)
	at := other
	for ; i > 1; i-- {
		if at = (at + 1) % count; at == first {
			at = (at + 1) % count
		}
	}
	return at
}

func (w *world) writeBuffered(n int, id int32, done func()) {
	first, other := w.home(n, id, true)
	size := w.l.sizes[id]
	slowed := false
	w.reserve(&slowed, func() (int32, bool) {
		for i := range w.c.replicas {
			at := w.replica(first, other, i)
			k := &w.io[at]
			if k.undrained > 0 && k.undrained+size > waitFrom*w.c.memory || !w.room(k, size) {
				return at, false
			}
		}
		return first, true
	}, func() {
		for i := range w.c.replicas {
			k := &w.io[w.replica(first, other, i)]
			slowed = slowed || k.undrained > slowFrom*w.c.memory
			w.evict(k, size)
			k.free -= size
			k.undrained += size
			w.peak = max(w.peak, k.undrained)
			w.throttle(k)
		}
		if !slowed {
			w.writeHits += size
		}
		w.s.Send(w.path(route{store, int32(n), first, other}), size, func() {
			w.chunks[id].state = undrained
			w.io[first].drains = append(w.io[first].drains, id)
			w.drain(first)
			done()
		})
	})
}

// drain sends the oldest chunks of an I/O node to the remote store.
func (w *world) drain(at int32) {
	k := &w.io[at]
	for len(k.drains) > 0 && k.draining < w.c.drains {
		id := k.drains[0]
		k.drains = k.drains[1:]
		k.draining++
		size := w.l.sizes[id]
		first, other := w.home(int(at), id, true) // colocated: at is the writer
		w.request(func() {
			w.s.Send(w.path(route{kind: drain, first: at}), size, func() {
				w.sent += size
				k.draining--
				w.drained = w.s.Now()
				for i := range w.c.replicas {
					r := &w.io[w.replica(first, other, i)]
					r.undrained -= size
					if i > 0 {
						r.free += size
					}
					w.throttle(r)
				}
				w.chunks[id].state = clean
				w.keep(k, id)
				for i := range w.c.replicas {
					w.wake(w.replica(first, other, i))
				}
				w.drain(at)
			})
		})
	}
}

// throttle slows the writers of an I/O node, smoothly down to the rate at which it drains.
func (w *world) throttle(k *ioNode) {
	full := k.undrained / w.c.memory
	if full <= slowFrom {
		w.s.SetRate(k.admit, unlimited)
		return
	}
	rate := w.path(route{kind: drain, first: int32(k.index(w))}).Rate()
	if rate == 0 {
		rate = w.c.line / float64(w.c.ioNodes)
	}
	rate = min(rate, w.c.nic)
	w.s.SetRate(k.admit, rate+(w.c.nic-rate)*max(0, waitFrom-full)/(waitFrom-slowFrom))
}

func (k *ioNode) index(w *world) int {
	if w.c.colocated {
		return k.host
	}
	return k.host - w.c.nodes
}

func (w *world) readBuffered(n int, id int32, done func()) {
	at, _ := w.home(n, id, false)
	k, c := &w.io[at], &w.chunks[id]
	size := w.l.sizes[id]
	send := func() {
		w.s.Send(w.path(route{kind: serve, node: int32(n), first: at}), size, func() {
			if c.users--; c.users == 0 {
				w.keep(k, id)
			}
			done()
			w.wake(at)
		})
	}
	switch c.state {
	case clean:
		w.readHits += size
		if c.users == 0 {
			w.take(k, id)
		}
		c.users++
		c.frequent = true
		send()
	case fetching: // one fetch, however many ask
		w.readHits += size
		c.users++
		c.frequent = true
		c.waiters = append(c.waiters, send)
	default:
		c.state, c.frequent = fetching, false
		c.users++
		c.waiters = append(c.waiters, send)
		slowed := false
		w.reserve(&slowed, func() (int32, bool) { return at, w.room(k, size) }, func() {
			w.evict(k, size)
			k.free -= size
			k.fetches = append(k.fetches, id)
			w.fetch(at)
		})
	}
}

// fetch asks the remote store for the chunks that have room.
func (w *world) fetch(at int32) {
	k := &w.io[at]
	for len(k.fetches) > 0 && k.fetching < w.c.streams {
		id := k.fetches[0]
		k.fetches = k.fetches[1:]
		k.fetching++
		w.request(func() {
			w.s.Send(w.path(route{kind: fetch, first: at}), w.l.sizes[id], func() {
				w.fetched += w.l.sizes[id]
				k.fetching--
				c := &w.chunks[id]
				c.state = clean
				ready := c.waiters
				c.waiters = nil
				for _, send := range ready {
					send()
				}
				w.fetch(at)
			})
		})
	}
}
