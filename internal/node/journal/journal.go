// Package journal keeps the events of an attempt. It knows neither nodes nor how they
// are reported.
package journal

import (
	"context"
	"encoding/json"
	"os"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
)

// Journal keeps an attempt's events: in a file, for a reader who comes when the
// head has gone, and in memory for those who watch.
type Journal struct {
	mu     sync.Mutex
	f      *os.File
	events []plan.Event
	wake   chan struct{}
	phases map[core.Phase]time.Duration
	begun  map[core.Phase]time.Time
	now    core.Phase // the present one
}

// New begins a journal in a file, which is emptied.
func New(path string) (*Journal, error) {
	f, err := fsutil.Empty(path, 0o600)
	if err != nil {
		return nil, err
	}
	return &Journal{f: f, wake: make(chan struct{}), phases: map[core.Phase]time.Duration{}, begun: map[core.Phase]time.Time{}}, nil
}

// Add appends an event.
func (j *Journal) Add(e plan.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Seq, e.Time = int64(len(j.events)+1), time.Now()
	if e.Begin {
		j.begun[e.Phase] = e.Time
	}
	if since, ok := j.begun[e.Phase]; ok && e.End {
		j.phases[e.Phase] += e.Time.Sub(since)
		delete(j.begun, e.Phase)
	}
	if raw, err := json.Marshal(e); err == nil {
		core.BestEffort(j.f.Write(append(raw, '\n'))) // a full disk must not end the attempt; the watchers have it
	}
	j.events = append(j.events, e)
	close(j.wake)
	j.wake = make(chan struct{})
}

// Enter begins a phase, which is the present one until the next is entered.
func (j *Journal) Enter(p core.Phase) {
	j.mu.Lock()
	j.now = p
	j.mu.Unlock()
	j.Begin(p)
}

// Phase returns the present phase.
func (j *Journal) Phase() core.Phase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

// Begin records that a phase begins.
func (j *Journal) Begin(p core.Phase) { j.Add(plan.Event{Phase: p, Begin: true, Rank: -1}) }

// End records that a phase ends.
func (j *Journal) End(p core.Phase) { j.Add(plan.Event{Phase: p, End: true, Rank: -1}) }

// Say records a message for the run's user.
func (j *Journal) Say(p core.Phase, message string) {
	j.Add(plan.Event{Phase: p, Rank: -1, Message: message})
}

// Remark records a message that belongs in the run's history as well.
func (j *Journal) Remark(p core.Phase, message string) {
	j.Add(plan.Event{Phase: p, Rank: -1, Message: message, Remark: true})
}

// Durations returns how long each phase took; one that was cut short counts too.
func (j *Journal) Durations() map[core.Phase]time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[core.Phase]time.Duration, len(j.phases))
	for p, d := range j.phases {
		all[p] = d
	}
	for p, since := range j.begun {
		all[p] += time.Since(since)
	}
	return all
}

// Follow reports the events after a number until the one with the result.
func (j *Journal) Follow(ctx context.Context, after int64, fn func(plan.Event) error) error {
	for {
		j.mu.Lock()
		events, wake := j.events[min(after, int64(len(j.events))):], j.wake
		j.mu.Unlock()
		for _, e := range events {
			if err := fn(e); err != nil || e.Result != nil {
				return err
			}
			after = e.Seq
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
