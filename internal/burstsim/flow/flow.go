// Package flow simulates data that flow over shared resources: discrete events, between
// which each flow has its max-min fair rate. It knows nothing of what flows.
package flow

import (
	"container/heap"
	"errors"
	"math"
)

// Resource is what flows share, such as one direction of a network interface. None is no
// resource, and limits nothing.
type Resource int

// None limits nothing.
const None Resource = -1

// Use is that each byte of a flow takes Times bytes of a resource.
type Use struct {
	Resource Resource
	Times    float64
}

type resource struct {
	rate    float64 // bytes a second
	used    float64 // by all paths at their rates
	paths   []*Path // that have flows
	limited int     // paths whose bottleneck it is
	scratch
}

// scratch is valid during one computation of rates.
type scratch struct {
	round   int     // in which it was last touched
	free    float64 // what is left for the paths not fixed yet
	weight  float64 // bytes that one byte of each of them takes
	demand  float64 // that they take at their limits
	share   float64 // the level at which it stopped paths
	stopped bool
}

// Path is a set of resources that flows cross together. All its flows have one rate.
type Path struct {
	uses   []Use
	places []int   // in the lists of the resources
	limit  float64 // of one flow, bytes a second
	flows  flows
	served float64 // bytes that each flow was given until since
	since  float64
	rate   float64  // of each flow
	count  int      // of flows when rates were computed last
	bound  Resource // bottleneck, None if it is limit
	next   float64  // when the first flow ends
	order  int      // of creation
	index  int      // in the queue
	listed bool
	dirty  bool
	round  int
	level  float64 // rate to be
	fixed  bool
	stop   Resource
}

// Simulation has a clock that starts at 0 s.
type Simulation struct {
	now       float64
	events    int
	resources []resource
	paths     queue
	timers    timers
	dirty     []*Path
	changed   []Resource
	round     int
	set       []*Path
	touched   []Resource
	steps     steps
	made      int
	sequence  int
}

// Now returns the time in seconds.
func (s *Simulation) Now() float64 { return s.now }

// Events returns how many events there were.
func (s *Simulation) Events() int { return s.events }

// Resource returns a new resource with a rate in bytes a second, None if it is 0.
func (s *Simulation) Resource(rate float64) Resource {
	if rate == 0 {
		return None
	}
	s.resources = append(s.resources, resource{rate: rate})
	return Resource(len(s.resources) - 1)
}

// SetRate changes the rate of a resource, which has to be above 0.
func (s *Simulation) SetRate(r Resource, rate float64) {
	if r != None && s.resources[r].rate != rate {
		s.resources[r].rate = rate
		s.changed = append(s.changed, r)
	}
}

// Path returns a new path. A flow on it has at most limit bytes a second, which has to be
// above 0. A resource that is named several times is used as often.
func (s *Simulation) Path(limit float64, uses ...Use) *Path {
	p := &Path{limit: limit, bound: None, next: math.Inf(1), index: -1, order: s.made}
	s.made++
add:
	for _, u := range uses {
		if u.Resource == None {
			continue
		}
		for i := range p.uses {
			if p.uses[i].Resource == u.Resource {
				p.uses[i].Times += u.Times
				continue add
			}
		}
		p.uses = append(p.uses, u)
	}
	p.places = make([]int, len(p.uses))
	return p
}

// Rate returns the rate of all flows of a path together.
func (p *Path) Rate() float64 { return p.rate * float64(p.count) }

// Send starts a flow. done is called when its last byte has arrived.
func (s *Simulation) Send(p *Path, bytes float64, done func()) {
	s.settle(p)
	if len(p.flows) == 0 {
		p.served = 0
	}
	s.sequence++
	heap.Push(&p.flows, aFlow{p.served + bytes, s.sequence, done})
	s.mark(p)
}

// After calls do in so many seconds.
func (s *Simulation) After(seconds float64, do func()) {
	s.sequence++
	heap.Push(&s.timers, timer{s.now + seconds, s.sequence, do})
}

// Run runs until nothing is left to do. stop is asked now and then; its error ends it.
func (s *Simulation) Run(stop func() error) error {
	for turn := 0; ; turn++ {
		if turn%1024 == 0 {
			if err := stop(); err != nil {
				return err
			}
		}
		s.share()
		at := math.Inf(1)
		if len(s.timers) > 0 {
			at = s.timers[0].at
		}
		if len(s.paths) > 0 {
			at = math.Min(at, s.paths[0].next)
		}
		if math.IsInf(at, 1) {
			if len(s.paths) > 0 {
				return errors.New("flows have no rate")
			}
			return nil
		}
		s.now = at
		for len(s.timers) > 0 && s.timers[0].at <= at {
			t := heap.Pop(&s.timers).(timer)
			s.events++
			t.do()
		}
		for len(s.paths) > 0 && s.paths[0].next <= at {
			s.arrive(s.paths[0])
		}
	}
}

// arrive ends the flows of a path whose last byte is there.
func (s *Simulation) arrive(p *Path) {
	s.settle(p)
	const slack = 1e-3 // bytes: less than any flow, more than what rounding adds up to
	var done []func()
	for len(p.flows) > 0 && (len(done) == 0 || p.flows[0].end <= p.served+slack) {
		done = append(done, heap.Pop(&p.flows).(aFlow).done)
	}
	s.schedule(p)
	s.mark(p)
	s.events += len(done)
	for _, do := range done {
		do()
	}
}

func (s *Simulation) mark(p *Path) {
	if !p.dirty {
		p.dirty = true
		s.dirty = append(s.dirty, p)
	}
}

// settle counts what the flows of a path were given until now.
func (s *Simulation) settle(p *Path) {
	p.served += p.rate * (s.now - p.since)
	p.since = s.now
}

// schedule puts a path into the queue by when its next flow ends.
func (s *Simulation) schedule(p *Path) {
	p.next = math.Inf(1)
	if len(p.flows) > 0 && p.rate > 0 {
		p.next = s.now + math.Max(0, p.flows[0].end-p.served)/p.rate
	}
	switch {
	case p.index >= 0:
		heap.Fix(&s.paths, p.index)
	case len(p.flows) > 0:
		heap.Push(&s.paths, p)
	}
}
