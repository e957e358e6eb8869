package fabric

import "github.com/bee-hpc/bee/internal/fabric/vhost"

// burst is what came at once from one side. Who is given a part of it is woken,
// or written to, when all of it is there.
type burst struct {
	f       *Fabric
	from    route
	filled  [8]*outbox // that were empty before
	fills   int
	guest   *port // who gets what follows, without a queue
	toGuest *batch
}

// forward gives a frame to all whom it is for, but not back to where it came
// from; the frame has to stay until the burst is through.
func (b *burst) forward(frame vhost.Frame) {
	f := b.f
	ethernet := frame.Head[f.header:]
	f.learn(mac(ethernet[6:]), b.from)
	if to, known := f.routeTo(mac(ethernet)); known {
		switch {
		case to == b.from:
		case to < 0:
			b.give(int(-1-to), frame)
		case b.from < 0 || passes(f.kind):
			f.peers[to].send(b, frame)
		}
		return
	}
	for i := range f.ports {
		if byPort(i) != b.from {
			b.give(i, frame)
		}
	}
	if b.from >= 0 && !passes(f.kind) {
		return
	}
	for host, k := range f.peers {
		if k != nil && route(host) != b.from {
			k.send(b, frame)
		}
	}
}

// give hands a frame to a guest. What it has no room for at once waits in a queue of its
// own, and is dropped where that is full. For one that is alone on its host nothing is
// read any more before that: what it is sent then waits, and is dropped, at the senders.
func (b *burst) give(i int, frame vhost.Frame) {
	p := b.f.ports[i].Load()
	switch {
	case p == nil:
		b.f.unheard.Add(1)
	case b.straight(p):
		b.guest = p
		if !b.toGuest.add(frame) {
			b.through()
		}
	case !b.queue(p.out, frame):
		p.to.Dropped.Add(1)
	}
}

// straight reports whether a frame for a guest may be tried without its queue, which spares
// a copy and waking someone: so are those of one guest at a time.
func (b *burst) straight(p *port) bool { return p == b.guest || len(b.toGuest.frames) == 0 }

// queue reports whether there was room.
func (b *burst) queue(o *outbox, frame vhost.Frame) bool {
	ok, first := o.add(frame)
	if first {
		if b.fills == len(b.filled) {
			b.wake()
		}
		b.filled[b.fills] = o
		b.fills++
	}
	return ok
}

func (b *burst) wake() {
	for _, o := range b.filled[:b.fills] {
		o.leave()
	}
	b.fills = 0
}

// through sends all of it on its way.
func (b *burst) through() {
	b.wake()
	if len(b.toGuest.frames) > 0 {
		b.guest.offer(b.toGuest)
	}
}

// routeTo gives the way to an address; unknown means everywhere.
func (f *Fabric) routeTo(to mac) (route, bool) {
	if to.group() {
		return 0, false
	}
	if rank := to.rank(); rank >= 0 && f.place.hostOf(rank) < f.place.Hosts {
		if host := f.place.hostOf(rank); host != f.place.Host {
			return route(next(f.kind, f.place.Host, host)), true
		}
		return byPort(rank - f.place.First(f.place.Host)), true
	}
	if known, ok := f.learned.Load(to); ok {
		return known.(route), true // only ways are stored
	}
	return 0, false
}

// maxLearned bounds the table: addresses behind a guest (bridges of docker's)
// are few, and made-up ones shall not fill the memory.
const maxLearned = 4096

// learn remembers by which way a foreign address was heard.
func (f *Fabric) learn(source mac, from route) {
	if source.rank() >= 0 || source.group() {
		return
	}
	known, ok := f.learned.Load(source)
	if ok && known == from || f.count.Load() >= maxLearned {
		return
	}
	if !ok {
		f.count.Add(1)
	}
	f.learned.Store(source, from)
}
