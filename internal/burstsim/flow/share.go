package flow

import (
	"container/heap"
	"math"
)

// slight is by how much two rates may differ and count as equal.
const slight = 1e-9

// share gives each flow its max-min fair rate. Rates are computed for the paths that may
// have to change only: those that did, and those whose bottleneck is on one of these. If
// the result breaks the rule for another path, that is added, and it begins again. The
// rule: each path has a resource that is full, and on which no path has a higher rate, or
// has its own limit. There is one set of rates that keeps it, so both ways end the same.
func (s *Simulation) share() {
	if len(s.dirty) == 0 && len(s.changed) == 0 {
		return
	}
	s.round++
	s.set = s.set[:0]
	for _, p := range s.dirty {
		if !p.listed && len(p.flows) > 0 {
			s.list(p)
		}
		s.add(p)
	}
	for _, p := range s.dirty {
		for _, u := range p.uses {
			s.addLimited(u.Resource)
		}
	}
	for _, r := range s.changed {
		s.addLimited(r)
		// A resource that has become smaller may limit paths that it did not limit before.
		if res := &s.resources[r]; res.used > res.rate*(1-slight) {
			for _, p := range res.paths {
				s.add(p)
			}
		}
	}
	for s.fill(); s.grow(); s.fill() {
	}
	s.commit()
	for _, p := range s.dirty {
		p.dirty = false
	}
	s.dirty, s.changed = s.dirty[:0], s.changed[:0]
}

func (s *Simulation) add(p *Path) bool {
	if p.round == s.round {
		return false
	}
	p.round = s.round
	s.set = append(s.set, p)
	return true
}

func (s *Simulation) addLimited(r Resource) {
	if s.resources[r].limited == 0 {
		return
	}
	for _, p := range s.resources[r].paths {
		if p.bound == r {
			s.add(p)
		}
	}
}

// fill computes the levels of the set: all rise together until a resource is full, or
// until a path is at its limit. The other paths keep their rates.
func (s *Simulation) fill() {
	s.touched = s.touched[:0]
	for _, p := range s.set {
		for _, u := range p.uses {
			s.resources[u.Resource].round = 0
		}
	}
	left := 0
	for _, p := range s.set {
		p.fixed, p.level, p.stop = len(p.flows) == 0, 0, None
		if !p.fixed {
			left++
		}
		for _, u := range p.uses {
			r := &s.resources[u.Resource]
			if r.round != s.round {
				r.scratch = scratch{round: s.round, free: r.rate - r.used}
				s.touched = append(s.touched, u.Resource)
			}
			r.free += float64(p.count) * u.Times * p.rate
			r.weight += float64(len(p.flows)) * u.Times
			r.demand += float64(len(p.flows)) * u.Times * p.limit
		}
	}
	s.steps = s.steps[:0]
	for _, r := range s.touched {
		if res := &s.resources[r]; res.weight > 0 && res.demand > res.free {
			s.steps = append(s.steps, step{res.level(), r})
		}
	}
	heap.Init(&s.steps)
	for least := s.leastLimit(); left > 0; {
		next := step{math.Inf(1), None}
		if len(s.steps) > 0 {
			next = s.steps[0]
		}
		if least <= next.level {
			for _, p := range s.set {
				if !p.fixed && p.limit <= next.level {
					s.fix(p, p.limit, None)
					left--
				}
			}
			least = s.leastLimit()
			continue
		}
		r := &s.resources[next.resource]
		// The level at which a resource is full never falls while others stop.
		if level := r.level(); r.weight > 0 && level > next.level {
			s.steps[0].level = level
			heap.Fix(&s.steps, 0)
			continue
		}
		heap.Pop(&s.steps)
		if r.weight <= 0 {
			continue
		}
		r.stopped, r.share = true, next.level
		for _, p := range r.paths {
			if p.round == s.round && !p.fixed {
				s.fix(p, next.level, next.resource)
				left--
			}
		}
	}
}

// leastLimit is that of the paths of the set that are not fixed.
func (s *Simulation) leastLimit() float64 {
	least := math.Inf(1)
	for _, p := range s.set {
		if !p.fixed {
			least = min(least, p.limit)
		}
	}
	return least
}

// level is where the paths that are not fixed fill the resource.
func (r *resource) level() float64 { return max(0, r.free) / r.weight }

func (s *Simulation) fix(p *Path, level float64, at Resource) {
	p.fixed, p.level, p.stop = true, level, at
	for _, u := range p.uses {
		r := &s.resources[u.Resource]
		r.free -= float64(len(p.flows)) * u.Times * level
		r.weight -= float64(len(p.flows)) * u.Times
	}
}

// grow adds the paths that the levels of the set break the rule for.
func (s *Simulation) grow() bool {
	grown := false
	for _, r := range s.touched {
		res := &s.resources[r]
		if res.limited == 0 && !res.stopped {
			continue
		}
		top := 0.0
		for _, p := range res.paths {
			if p.round == s.round {
				top = max(top, p.level)
			}
		}
		full := res.free <= slight*res.rate
		for _, p := range res.paths {
			if p.round == s.round {
				continue
			}
			if p.bound == r && (!full || p.rate < top*(1-slight)) || res.stopped && p.rate > res.share*(1+slight) {
				grown = s.add(p) || grown
			}
		}
	}
	return grown
}

// commit makes the levels of the set its rates.
func (s *Simulation) commit() {
	for _, p := range s.set {
		s.settle(p)
		for _, u := range p.uses {
			r := &s.resources[u.Resource]
			r.used += u.Times * (float64(len(p.flows))*p.level - float64(p.count)*p.rate)
		}
		if p.bound != None {
			s.resources[p.bound].limited--
		}
		if p.stop != None {
			s.resources[p.stop].limited++
		}
		p.rate, p.count, p.bound = p.level, len(p.flows), p.stop
		if len(p.flows) > 0 {
			s.schedule(p)
			continue
		}
		if p.index >= 0 {
			heap.Remove(&s.paths, p.index)
		}
		s.unlist(p)
	}
}

func (s *Simulation) list(p *Path) {
	p.listed = true
	for i, u := range p.uses {
		r := &s.resources[u.Resource]
		p.places[i] = len(r.paths)
		r.paths = append(r.paths, p)
	}
}

func (s *Simulation) unlist(p *Path) {
	if !p.listed {
		return
	}
	p.listed = false
	for i, u := range p.uses {
		r := &s.resources[u.Resource]
		last := r.paths[len(r.paths)-1]
		r.paths[p.places[i]] = last
		for j := range last.uses {
			if last.uses[j].Resource == u.Resource {
				last.places[j] = p.places[i]
			}
		}
		r.paths = r.paths[:len(r.paths)-1]
		if len(r.paths) == 0 {
			r.used = 0 // what rounding has left
		}
	}
}
