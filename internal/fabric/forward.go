package fabric

// forward gives a frame to all whom it is for, but not back to where it came
// from.
func (f *Fabric) forward(frame []byte, from way) {
	ethernet := frame[f.header:]
	f.learn(mac(ethernet[6:]), from)
	if to, known := f.wayTo(mac(ethernet)); known {
		switch {
		case to == from:
		case to < 0:
			f.toGuest(int(-1-to), frame)
		case from < 0 || passes(f.kind):
			f.toLink(int(to), frame)
		}
		return
	}
	for i := range f.ports {
		if byPort(i) != from {
			f.toGuest(i, frame)
		}
	}
	if from >= 0 && !passes(f.kind) {
		return
	}
	for host := range f.links {
		if way(host) != from {
			f.toLink(host, frame)
		}
	}
}

// wayTo gives the way to an address; unknown means everywhere.
func (f *Fabric) wayTo(to mac) (way, bool) {
	if to.group() {
		return 0, false
	}
	if rank := to.rank(); rank >= 0 && f.place.hostOf(rank) < f.place.Hosts {
		if host := f.place.hostOf(rank); host != f.place.Host {
			return way(next(f.kind, f.place.Host, host)), true
		}
		return byPort(rank - f.place.First(f.place.Host)), true
	}
	if known, ok := f.learned.Load(to); ok {
		return known.(way), true //nolint:forcetypeassert // only ways are stored
	}
	return 0, false
}

// maxLearned bounds the table: addresses behind a guest (bridges of docker's)
// are few, and made-up ones shall not fill the memory.
const maxLearned = 4096

// learn remembers by which way a foreign address was heard.
func (f *Fabric) learn(source mac, from way) {
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

func (f *Fabric) toLink(host int, frame []byte) {
	if l := f.links[host].Load(); l != nil {
		l.queue(frame)
	}
}

func (f *Fabric) toGuest(i int, frame []byte) {
	if p := f.ports[i].Load(); p != nil {
		p.deliver(frame)
		return
	}
	f.unheard.Add(1)
}
