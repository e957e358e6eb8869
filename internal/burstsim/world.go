package burstsim

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/burstsim/flow"
)

// world is one simulation of a job, with or without the buffer.
type world struct {
	c        *scenario
	l        *load
	s        *flow.Simulation
	buffered bool
	up, down []flow.Resource // of hosts: compute nodes, then I/O nodes that are apart
	sw       flow.Resource
	lineUp   flow.Resource
	lineDown flow.Resource
	storeIn  flow.Resource
	storeOut flow.Resource
	paths    map[route]*flow.Path
	io       []ioNode
	chunks   []chunk

	phase, busy int     // of the job; compute nodes that are in it
	began       float64 // its I/O
	next        []int   // the next request of each compute node in this phase
	open        []int   // requests of each on their way
	reading     []bool
	firstRead   int

	// Results, in bytes and seconds.
	ended, drained, waited            float64
	readHits, writeHits, peak         float64
	fetched, sent, received, accepted float64 // over the line down and up; by and from compute nodes
}

// kind is what a flow does.
type kind uint8

const (
	directRead kind = iota
	directWrite
	serve
	store
	fetch
	drain
)

// route identifies a path. Replicas of a chunk are on the I/O nodes after its first one.
type route struct {
	kind  kind
	node  int32 // compute node
	first int32 // I/O node
	other int32 // second I/O node
}

func newWorld(c *scenario, l *load, buffered bool) *world {
	w := &world{c: c, l: l, s: &flow.Simulation{}, buffered: buffered, paths: map[route]*flow.Path{}}
	hosts := c.nodes
	if buffered && !c.colocated {
		hosts += c.ioNodes
	}
	for range hosts {
		w.up, w.down = append(w.up, w.s.Resource(c.nic)), append(w.down, w.s.Resource(c.nic))
	}
	w.sw = w.s.Resource(c.sw)
	w.lineUp, w.lineDown = w.s.Resource(c.line), w.s.Resource(c.line)
	w.storeIn, w.storeOut = w.s.Resource(c.remote), w.s.Resource(c.remote)
	if buffered {
		w.io = make([]ioNode, c.ioNodes)
		w.chunks = make([]chunk, len(l.sizes))
		for i := range w.io {
			w.io[i] = ioNode{host: i, free: c.memory, admit: w.s.Resource(unlimited)}
			if !c.colocated {
				w.io[i].host += c.nodes
			}
			w.io[i].recent.head, w.io[i].frequent.head = none, none
			w.io[i].recent.tail, w.io[i].frequent.tail = none, none
		}
	}
	w.next, w.open, w.reading = make([]int, c.nodes), make([]int, c.nodes), make([]bool, c.nodes)
	return w
}

// run simulates the job until everything is drained.
func (w *world) run(stop func() error) error {
	w.compute()
	if err := w.s.Run(stop); err != nil {
		return err
	}
	if w.phase < w.c.bursts {
		return fmt.Errorf("simulate: the job stopped in burst %d of %d", w.phase+1, w.c.bursts)
	}
	w.drained = max(w.drained, w.ended)
	return nil
}

// compute is the time before a burst.
func (w *world) compute() {
	w.s.After(w.c.every, func() {
		w.began, w.busy = w.s.Now(), w.c.nodes
		w.firstRead = w.phase * len(w.l.reads) / w.c.bursts
		for n := range w.next {
			w.next[n], w.reading[n] = w.firstRead+n, true
		}
		for n := range w.next {
			w.issue(n)
		}
	})
}

// issue starts the requests that a compute node may have open: reads, then writes.
func (w *world) issue(n int) {
	depth := w.c.depth
	if !w.buffered {
		depth = w.c.directStreams
	}
	done := func() {
		w.open[n]--
		w.issue(n)
	}
	last := (w.phase + 1) * len(w.l.reads) / w.c.bursts
	for w.reading[n] && w.open[n] < depth {
		if w.next[n] >= last {
			if w.open[n] > 0 {
				return
			}
			w.reading[n], w.next[n] = false, int(w.l.writes[w.phase][0])+n
			break
		}
		id := w.l.reads[w.next[n]]
		w.next[n] += w.c.nodes
		w.open[n]++
		w.read(n, id, done)
	}
	for !w.reading[n] && w.open[n] < depth {
		if w.next[n] >= int(w.l.writes[w.phase][1]) {
			if w.open[n] == 0 {
				w.finish(n)
			}
			return
		}
		id := int32(w.next[n])
		w.next[n] += w.c.nodes
		w.open[n]++
		w.write(n, id, done)
	}
}

// finish is called when a compute node is done with its burst. The job continues when all are.
func (w *world) finish(n int) {
	if w.busy--; w.busy > 0 {
		return
	}
	w.waited += w.s.Now() - w.began
	if w.phase++; w.phase < w.c.bursts {
		w.compute()
		return
	}
	w.ended = w.s.Now()
}

func (w *world) read(n int, id int32, done func()) {
	size := w.l.sizes[id]
	arrived := func() {
		w.received += size
		done()
	}
	if w.buffered {
		w.readBuffered(n, id, arrived)
		return
	}
	w.request(func() {
		w.s.Send(w.path(route{kind: directRead, node: int32(n)}), size, func() {
			w.fetched += size
			arrived()
		})
	})
}

func (w *world) write(n int, id int32, done func()) {
	size := w.l.sizes[id]
	w.accepted += size
	if w.buffered {
		w.writeBuffered(n, id, done)
		return
	}
	w.request(func() {
		w.s.Send(w.path(route{kind: directWrite, node: int32(n)}), size, func() {
			w.sent += size
			done()
		})
	})
}

// request waits for the round trip and the remote store's own time.
func (w *world) request(do func()) {
	if w.c.latency == 0 {
		do()
		return
	}
	w.s.After(w.c.latency, do)
}

// path returns the path of a route.
func (w *world) path(r route) *flow.Path {
	if p := w.paths[r]; p != nil {
		return p
	}
	var p *flow.Path
	use := func(r flow.Resource) flow.Use { return flow.Use{Resource: r, Times: 1} }
	switch r.kind {
	case directRead:
		p = w.s.Path(w.c.stream, use(w.storeOut), use(w.lineDown), use(w.down[r.node]))
	case directWrite:
		p = w.s.Path(w.c.stream, use(w.up[r.node]), use(w.lineUp), use(w.storeIn))
	case fetch:
		p = w.s.Path(w.c.stream, use(w.storeOut), use(w.lineDown), use(w.down[w.io[r.first].host]))
	case drain:
		p = w.s.Path(w.c.stream, use(w.up[w.io[r.first].host]), use(w.lineUp), use(w.storeIn))
	case serve:
		p = w.s.Path(copyRate, w.hop(w.io[r.first].host, int(r.node))...)
	case store: // along the chain of replicas
		var uses []flow.Use
		from := int(r.node)
		for i := range w.c.replicas {
			k := &w.io[w.replica(r.first, r.other, i)]
			uses = append(append(uses, w.hop(from, k.host)...), use(k.admit))
			from = k.host
		}
		p = w.s.Path(copyRate, uses...)
	}
	w.paths[r] = p
	return p
}

// hop is the way from one host to another.
func (w *world) hop(from, to int) []flow.Use {
	if from == to {
		return nil
	}
	return []flow.Use{{Resource: w.up[from], Times: 1}, {Resource: w.sw, Times: 1}, {Resource: w.down[to], Times: 1}}
}
