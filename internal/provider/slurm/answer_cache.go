package slurm

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"
)

// How old an answer about what the staff set up may be: for looking at a site, and for
// what has consequences, which are to submit a job and to refuse one.
const (
	settled = time.Minute
	recent  = 10 * time.Second
)

// answer is what one of Slurm's programs has printed, or will print.
type answer struct {
	asked time.Time
	done  chan struct{}
	out   string
	err   error
}

// under reports whether the program has not answered yet.
func (a *answer) under() bool {
	select {
	case <-a.done:
		return false
	default:
		return true
	}
}

// cachedCall is call for what hardly changes, the settings of a cluster and what its staff
// allow: the answer may be one that anybody was given within age, and who asks while the
// program runs waits for what it says. What fails is reported to those who wait, and not kept.
func (q *Queue) cachedCall(ctx context.Context, age time.Duration, name string, args ...string) (string, error) {
	if q == nil {
		return call(ctx, name, args...)
	}
	key := strings.Join(slices.Concat([]string{name}, args), " ")
	q.mu.Lock()
	a := q.answers[key]
	if a == nil || !a.under() && time.Since(a.asked) > age {
		a = &answer{asked: time.Now(), done: make(chan struct{})}
		if q.answers == nil {
			q.answers = map[string]*answer{}
		}
		q.answers[key] = a
		go func() { // for all who wait, whichever of them goes away
			a.out, a.err = call(context.WithoutCancel(ctx), name, args...)
			if a.err != nil {
				q.forget(func(other *answer) bool { return other == a })
			}
			close(a.done)
		}()
	}
	q.mu.Unlock()
	select {
	case <-a.done:
		return a.out, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// outdate has what was asked before a time asked again: Slurm has refused what it
// allowed by that.
func (q *Queue) outdate(before time.Time) {
	if q != nil {
		q.forget(func(a *answer) bool { return a.asked.Before(before) })
	}
}

func (q *Queue) forget(which func(*answer) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	maps.DeleteFunc(q.answers, func(_ string, a *answer) bool { return which(a) })
}
