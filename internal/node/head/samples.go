package head

import (
	"context"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// samples gathers into the journal what the nodes use while the job runs. nil gathers nothing.
type samples struct {
	every   time.Duration
	node    Node
	hosts   *hosts
	journal *journal.Journal

	begun   time.Time
	last    time.Time // until when it is known what the nodes have used
	passed  time.Time // when the journal had a sample
	pending measure.Used

	mu sync.Mutex
	// unable are nodes that know no such call, as they are of an earlier bee.
	unable map[int]bool
}

const (
	// firstSample is when the first one is taken. The pause doubles then, so that a short job
	// has some, too.
	firstSample = time.Second
	// samplesShare is the part of the attempt's time by which the journal's samples may be
	// late: so an attempt of a year leaves 5,000.
	samplesShare = 500
	// nodeShare is the least time between two samples for each node: to ask one costs the head
	// about 0.1 ms.
	nodeShare = 20 * time.Millisecond
	// sampleTimeout bounds the wait for a sample, and lastSample for that at the job's end.
	sampleTimeout = 5 * time.Second
	lastSample    = time.Second
)

func newSamples(p *plan.Plan, n Node, hs *hosts, j *journal.Journal) *samples {
	if p.Sample <= 0 {
		return nil
	}
	now := time.Now()
	return &samples{every: max(p.Sample, time.Duration(hs.config.Size)*nodeShare), node: n, hosts: hs, journal: j, begun: now, last: now, unable: map[int]bool{}}
}

// follow takes samples until done is called, which takes the last one.
func (s *samples) follow(ctx context.Context) (done func()) {
	if s == nil {
		return func() {}
	}
	s.begun = time.Now()
	s.last = s.begun
	asking, end := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		pause := min(firstSample, s.every)
		next := time.NewTimer(pause)
		defer next.Stop()
		for {
			select {
			case <-next.C:
				s.take(asking, sampleTimeout)
				s.pass(time.Since(s.begun) / samplesShare)
				pause = min(2*pause, s.every)
				next.Reset(pause)
			case <-asking.Done():
				if time.Since(s.begun) >= firstSample { // else nothing is to be added to a short job
					s.take(ctx, lastSample)
				}
				s.pass(0)
				return
			}
		}
	}()
	return func() { end(); <-ended }
}

// take asks all nodes at once. Those that do not answer are missing in this sample.
func (s *samples) take(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	now := time.Now()
	uses := make([]core.Use, s.hosts.config.Size)
	s.hosts.each(func(rank int, p *rpc.Peer) { uses[rank] = s.ask(ctx, rank, p) })
	u := measure.Gather(now.Sub(s.last).Seconds(), uses)
	if u.Nodes > 0 {
		s.last, s.pending = now, s.pending.Join(u)
	}
}

// ask returns what a node uses; nil: it is not known.
func (s *samples) ask(ctx context.Context, rank int, p *rpc.Peer) core.Use {
	if p == nil {
		use, err := s.node.Use(ctx)
		if err != nil {
			return nil
		}
		return use
	}
	s.mu.Lock()
	unable := s.unable[rank]
	s.mu.Unlock()
	if unable {
		return nil
	}
	r, err := rpc.Call(ctx, p, peercall.CallUse, rpc.None{})
	if core.IsKind(err, core.Unsupported) {
		s.mu.Lock()
		s.unable[rank] = true
		s.mu.Unlock()
	}
	if err != nil {
		return nil
	}
	return r.Use
}

// pass adds what was gathered to the journal, unless that had a sample just before.
func (s *samples) pass(pause time.Duration) {
	now := time.Now()
	if s.pending.Nodes == 0 || now.Sub(s.passed) < pause {
		return
	}
	u := plan.Used(s.pending)
	s.journal.Add(plan.Event{Rank: -1, Used: &u})
	s.pending, s.passed = measure.Used{}, now
}
