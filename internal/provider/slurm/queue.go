package slurm

import (
	"context"
	"os"
	"strconv"
	"sync"
	"time"
)

// Queue is a way to look at Slurm's queue that all leases of a process share.
// squeue has the one controller of the whole cluster report all jobs: a thousand
// runs that wait must not make a thousand of it. So there is one at a time, which
// answers everybody who has asked before it began; and the more jobs are asked for,
// the longer is the rest after it. What hardly changes is asked for once in a while, for
// all. The zero value is ready for use, and nil looks
// each time.
type Queue struct {
	turn  sync.Mutex // held while squeue runs
	rests time.Time  // until then

	mu      sync.Mutex
	next    *look // that has not begun
	asked   map[string]time.Time
	permits chan struct{} // see enter

	answers map[string]*answer // by command, see cachedCall
}

// look is one squeue.
type look struct {
	ids  map[string]bool
	done chan struct{}
	jobs []job
	err  error
}

// How long the rest after a look is for each job that is asked for, at most in all,
// and how long a job counts.
const (
	restForJob  = 10 * time.Millisecond
	longestRest = 10 * time.Second
	jobCounts   = time.Minute
)

// fewEnter is how many at a time ask Slurm for nodes: each starts several of Slurm's
// programs on a login node that many people share.
const fewEnter = 4

// enter waits until a few others at most ask for nodes; leave has to be called then.
func (q *Queue) enter(ctx context.Context) (leave func(), err error) {
	if q == nil {
		return func() {}, nil
	}
	q.mu.Lock()
	if q.permits == nil {
		q.permits = make(chan struct{}, fewEnter)
	}
	permits := q.permits
	q.mu.Unlock()
	select {
	case permits <- struct{}{}:
		return func() { <-permits }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// job gives a job as it was after it was asked for, or nil when Slurm has
// forgotten it.
func (q *Queue) job(ctx context.Context, id string) (*job, error) {
	if q == nil {
		return jobNumbered(ctx, id)
	}
	l := q.join(id)
	select {
	case <-l.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if l.err != nil {
		return nil, l.err
	}
	return numbered(l.jobs, id), nil
}

// join has the next look be about a job too.
func (q *Queue) join(id string) *look {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.asked == nil {
		q.asked = map[string]time.Time{}
	}
	q.asked[id] = time.Now()
	if q.next == nil {
		q.next = &look{ids: map[string]bool{}, done: make(chan struct{})}
		go q.carryOut(q.next)
	}
	q.next.ids[id] = true
	return q.next
}

func (q *Queue) carryOut(l *look) {
	q.turn.Lock()
	defer q.turn.Unlock()
	time.Sleep(time.Until(q.rests))
	rest := q.begin()
	filter := "--user=" + strconv.Itoa(os.Getuid())
	if len(l.ids) == 1 {
		for id := range l.ids {
			filter = "--jobs=" + id
		}
	}
	l.jobs, l.err = jobs(context.Background(), filter)
	q.rests = time.Now().Add(rest)
	close(l.done)
}

// begin has all that ask from now on wait for another look, and reports how long the
// rest is after this one.
func (q *Queue) begin() time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = nil
	for id, at := range q.asked {
		if time.Since(at) > jobCounts {
			delete(q.asked, id)
		}
	}
	return min(time.Duration(len(q.asked))*restForJob, longestRest)
}
