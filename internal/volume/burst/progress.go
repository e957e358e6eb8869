package burst

import "sync"

// progress counts steps of the drain. A byte that an earlier try of the same operation has sent, too, is none: a
// remote that fails each time at the same place makes no progress.
type progress struct {
	mu        sync.Mutex
	op        uint64 // the operation that is tried
	now, most int64  // its bytes that this try has sent, and that any has
	steps     uint64
}

// try notes that a try of an operation begins.
func (p *progress) try(op uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.op != op {
		p.op, p.most = op, 0
	}
	p.now = 0
}

// sent notes that so many bytes were sent.
func (p *progress) sent(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.now += int64(n); p.now > p.most {
		p.most = p.now
		p.steps++
	}
}

// done notes that an operation was carried out.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps++
}

func (p *progress) count() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.steps
}
