package burstsim

// protected is the share of an I/O node's memory that chunks read again may keep from
// those read once.
const protected = 0.8

// reserve calls do as soon as there is room. fits returns the I/O node without room, or the
// first one if there is. Requests that wait for an I/O node are served in their order.
func (w *world) reserve(waited *bool, fits func() (int32, bool), do func()) {
	at, ok := fits()
	if ok && len(w.io[at].waiting) == 0 {
		do()
		return
	}
	*waited = true
	var again func() bool
	again = func() bool {
		next, ok := fits()
		if ok {
			do()
			return true
		}
		if next == at {
			return false
		}
		at = next
		w.io[at].waiting = append(w.io[at].waiting, again)
		return true
	}
	w.io[at].waiting = append(w.io[at].waiting, again)
}

// wake serves the requests that wait for room on an I/O node.
func (w *world) wake(at int32) {
	k := &w.io[at]
	for len(k.waiting) > 0 && k.waiting[0]() {
		k.waiting = k.waiting[1:]
	}
}

// room reports whether there is room for size bytes once clean chunks are evicted.
func (w *world) room(k *ioNode, size float64) bool {
	return k.free+k.recent.bytes+k.frequent.bytes >= size
}

// evict removes clean chunks until size bytes are free.
func (w *world) evict(k *ioNode, size float64) {
	for k.free < size {
		id := k.recent.tail
		if id == none {
			id = k.frequent.tail
		}
		if id == none {
			return
		}
		w.take(k, id)
		w.chunks[id].state = absent
		w.chunks[id].frequent = false
		k.free += w.l.sizes[id]
	}
}

func (w *world) of(k *ioNode, id int32) *list {
	if w.chunks[id].frequent {
		return &k.frequent
	}
	return &k.recent
}

// keep makes a clean chunk one that may be evicted, as the last.
func (w *world) keep(k *ioNode, id int32) {
	w.push(k, id)
	for k.frequent.bytes > protected*w.c.memory {
		old := k.frequent.tail
		w.take(k, old)
		w.chunks[old].frequent = false
		w.push(k, old)
	}
}

func (w *world) push(k *ioNode, id int32) {
	l, c := w.of(k, id), &w.chunks[id]
	c.prev, c.next = none, l.head
	if l.head != none {
		w.chunks[l.head].prev = id
	} else {
		l.tail = id
	}
	l.head = id
	l.bytes += w.l.sizes[id]
}

// take removes a chunk from its list.
func (w *world) take(k *ioNode, id int32) {
	l, c := w.of(k, id), &w.chunks[id]
	if c.prev != none {
		w.chunks[c.prev].next = c.next
	} else {
		l.head = c.next
	}
	if c.next != none {
		w.chunks[c.next].prev = c.prev
	} else {
		l.tail = c.prev
	}
	l.bytes -= w.l.sizes[id]
}
