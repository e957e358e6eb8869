package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// Timing is how long processes wait for each other. The promises do not depend on it.
type Timing struct {
	// Alive is how often each end shows that it lives.
	Alive time.Duration
	// Lost is after what time without a sign the other end counts as lost.
	Lost time.Duration
	// Stuck is how long a follower may take for one confirmation.
	Stuck time.Duration
	// Restart is how long a process that has started again waits for other copies.
	Restart time.Duration
}

// Usual is the timing of hosts of one network.
var Usual = Timing{Alive: 500 * time.Millisecond, Lost: 2 * time.Second, Stuck: 10 * time.Second, Restart: 10 * time.Second}

// Leader has a journal, and keeps the copies of followers like it.
type Leader struct {
	id     string
	log    *buffer.Log
	store  Store
	timing Timing
	most   int // followers
	logger *slog.Logger

	changing chan struct{} // has room for one change of the configuration

	mu        sync.Mutex
	news      chan struct{} // closed when something changes that others wait for
	followers map[string]*follower
	excluded  map[string]bool // copies that were followers
	config    Configuration
	// round is the newest round of confirmations, and durable the newest for which copies have to be on disks.
	round, durable uint64
	note           []byte
	notes          int   // how often note was replaced
	over           error // why the process no longer leads; nil: it does
	drained        bool
}

// follower is a copy of the journal on another host, as the leader knows it.
type follower struct {
	id   string
	tail *buffer.Tail
	// required is whether nothing is answered without it.
	required bool
	// leaving is set once the leader has decided to continue without it: it may not come back.
	leaving bool
	cancel  context.CancelFunc // ends its connection
	ended   chan struct{}      // closed once that has ended
	heard   time.Time
	// sent and acked are rounds, since is when the oldest one without a confirmation was sent.
	sent, acked, durable uint64
	since                time.Time
	again                bool // it was connected again, and what it has not confirmed is asked again
	notes                int  // of the leader, that it was sent last
}

// LeaderOptions are those of NewLeader.
type LeaderOptions struct {
	// ID is the name of the leader's own copy.
	ID    string
	Log   *buffer.Log
	Store Store
	// Most bounds the followers.
	Most   int
	Timing Timing
	// Note is a small file that is beside each copy.
	Note   []byte
	Logger *slog.Logger
}

// NewLeader keeps copies of a journal from now on. The record of the remote names it as the only copy.
func NewLeader(o LeaderOptions) *Leader {
	return &Leader{
		id: o.ID, log: o.Log, store: o.Store, timing: o.Timing, most: o.Most, logger: o.Logger, note: o.Note, notes: 1,
		changing: make(chan struct{}, 1), news: make(chan struct{}), followers: map[string]*follower{}, excluded: map[string]bool{}, config: Configuration{Leader: o.ID},
	}
}

// report wakes all who wait. Callers hold the lock.
func (l *Leader) report() {
	close(l.news)
	l.news = make(chan struct{})
}

// wait waits for news, or for a time. Callers hold the lock.
func (l *Leader) wait(ctx context.Context, most time.Duration) error {
	news := l.news
	l.mu.Unlock()
	defer l.mu.Lock()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-news:
		return nil
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Copies returns the names of the complete copies, with the leader's own.
func (l *Leader) Copies() []string {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{l.id}, l.config.Copies...)
}

// Over returns why the process no longer leads; nil: it does, as far as it knows.
func (l *Leader) Over() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.over
}

// Confirm returns once all copies of the configuration have what the journal has now; durable: on their disks. They
// have confirmed by then, after the call, that they follow this leader: so nobody else has answered a client before
// that. It waits as long as it takes. An error means that nothing may be answered any more.
func (l *Leader) Confirm(ctx context.Context, durable bool) error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over != nil {
		return l.over
	}
	if !l.required() {
		return nil
	}
	return l.confirm(ctx, durable, nil)
}

// required reports whether there are others to ask. Callers hold the lock.
func (l *Leader) required() bool {
	for _, f := range l.followers {
		if f.required {
			return true
		}
	}
	return false
}

// confirm is Confirm for all who are required, and for also. Callers hold the lock.
func (l *Leader) confirm(ctx context.Context, durable bool, also *follower) error {
	l.round++
	mine := l.round
	if durable {
		l.durable = mine
	}
	l.report()
	for {
		if l.over != nil {
			return l.over
		}
		done := also == nil || also.acked >= mine
		for _, f := range l.followers {
			done = done && (!f.required || f.acked >= mine)
		}
		if done {
			return nil
		}
		if err := l.wait(ctx, time.Hour); err != nil {
			return err
		}
	}
}

// Note replaces the note that is beside each copy, and returns once all copies of the configuration have it.
func (l *Leader) Note(ctx context.Context, raw []byte) error {
	if l == nil {
		return nil
	}
	if len(raw) > mostNote {
		return &core.Error{Kind: core.Invalid, Op: "keep note beside journal", Err: fmt.Errorf("it has %d bytes, and %d are the most", len(raw), mostNote), Remedy: core.RemedyFault}
	}
	l.mu.Lock()
	l.note, l.notes = slices.Clone(raw), l.notes+1
	l.mu.Unlock()
	return l.Confirm(ctx, true)
}

// Stop ends all waiting, with the process.
func (l *Leader) Stop() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over == nil {
		l.over = context.Canceled
	}
	l.report()
}

// Drained has the followers end, as nothing is left to do. The record has no copies then.
func (l *Leader) Drained(ctx context.Context) error {
	if l == nil {
		return nil
	}
	if _, err := l.change(ctx, nil); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drained = true
	for _, f := range l.followers {
		f.required = false
	}
	l.report()
	begun := time.Now()
	for time.Since(begun) < l.timing.Lost { // a follower that is not notified finds itself in no record
		connected := false
		for _, f := range l.followers {
			connected = connected || f.cancel != nil
		}
		if !connected {
			break
		}
		if err := l.wait(ctx, l.timing.Alive); err != nil {
			return err
		}
	}
	return nil
}

// change replaces the configuration. Where another copy leads, the leader is over.
func (l *Leader) change(ctx context.Context, which func(copies []string) []string) (Configuration, error) {
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return Configuration{}, context.Cause(ctx)
	}
	defer func() { <-l.changing }()
	l.mu.Lock()
	if l.over != nil {
		defer l.mu.Unlock()
		return l.config, l.over
	}
	var copies []string
	if which != nil {
		copies = which(slices.Clone(l.config.Copies))
	}
	l.mu.Unlock()
	now, err := settle(ctx, l.store, l.id, copies)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err == nil:
		l.config = now
		l.logger.Info("copies of the volume", "term", now.Term, "leader", now.Leader, "followers", now.Copies)
	case errors.Is(err, ErrReplaced) || errors.Is(err, ErrSuperseded):
		l.over = err
		l.logger.Warn("the process no longer leads", "err", err, "term", now.Term, "leader", now.Leader)
	}
	l.report()
	return now, err
}

// Run continues without followers that are lost, until ctx ends or another copy leads.
func (l *Leader) Run(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for ctx.Err() == nil && l.over == nil {
		var lost *follower
		for _, f := range l.followers {
			if l.lost(f) {
				lost = f
				break
			}
		}
		if lost == nil {
			core.BestEffort(l.wait(ctx, l.timing.Alive/2))
			continue
		}
		l.mu.Unlock()
		err := l.exclude(ctx, lost)
		if err != nil {
			core.BestEffort(core.Sleep(ctx, l.timing.Alive/2))
		}
		l.mu.Lock()
	}
}

// lost reports whether the leader cannot wait for a follower any longer. Callers hold the lock.
func (l *Leader) lost(f *follower) bool {
	return f.leaving || time.Since(f.heard) >= l.timing.Lost || f.acked < f.sent && time.Since(f.since) >= l.timing.Stuck
}

// exclude continues without a follower. While the remote is away, that may still come back.
func (l *Leader) exclude(ctx context.Context, f *follower) error {
	l.mu.Lock()
	if !f.required {
		l.drop(f)
		l.mu.Unlock()
		return nil
	}
	leaving := f.leaving
	l.mu.Unlock()
	if !leaving {
		if _, _, err := l.store.Read(); err != nil && !errors.Is(err, ErrSuperseded) {
			return err
		}
		l.mu.Lock()
		if !l.lost(f) {
			l.mu.Unlock()
			return nil
		}
		f.leaving = true
		l.logger.Warn("a copy of the volume is lost", "copy", f.id)
		l.mu.Unlock()
	}
	_, err := l.change(ctx, func(copies []string) []string {
		return slices.DeleteFunc(copies, func(id string) bool { return id == f.id })
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(f)
	return nil
}

// drop forgets a follower that is in no configuration. Callers hold the lock.
func (l *Leader) drop(f *follower) {
	f.required = false
	if f.cancel != nil {
		f.cancel()
	}
	if l.followers[f.id] == f {
		delete(l.followers, f.id)
		l.excluded[f.id] = true
		f.tail.Close()
	}
	l.report()
}
