package node

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
	"golang.org/x/sys/unix"
)

// reserve is the space kept for the result and the last events, so that an
// attempt which fills the disk can still report so.
const reserve = 256 << 10

func reservePath(dir string) string { return filepath.Join(dir, ".reserve") }

func reserveSpace(path string) {
	f, err := fsutil.Empty(path, 0o600)
	if err != nil {
		return // a disk that is full already is noticed by what comes next
	}
	defer f.Close()
	unix.Fallocate(int(f.Fd()), 0, 0, reserve) //nolint:errcheck // not all file systems can
}

// journal keeps an attempt's events: in a file, for a reader who comes when the
// head has gone, and in memory for those who watch.
type journal struct {
	mu     sync.Mutex
	f      *os.File
	events []plan.Event
	wake   chan struct{}
	phases map[core.Phase]time.Duration
	begun  map[core.Phase]time.Time
	now    core.Phase
}

func newJournal(path string) (*journal, error) {
	f, err := fsutil.Empty(path, 0o600)
	if err != nil {
		return nil, err
	}
	return &journal{f: f, wake: make(chan struct{}), phases: map[core.Phase]time.Duration{}, begun: map[core.Phase]time.Time{}}, nil
}

func (j *journal) add(e plan.Event) {
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
		j.f.Write(append(raw, '\n')) //nolint:errcheck // a full disk must not end the attempt; the watchers have it
	}
	j.events = append(j.events, e)
	close(j.wake)
	j.wake = make(chan struct{})
}

// enter begins a phase that is what the attempt is about, until the next one.
func (j *journal) enter(p core.Phase) {
	j.mu.Lock()
	j.now = p
	j.mu.Unlock()
	j.begin(p)
}

// phase is what the attempt is about.
func (j *journal) phase() core.Phase {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.now
}

func (j *journal) begin(p core.Phase) { j.add(plan.Event{Phase: p, Begin: true, Rank: -1}) }
func (j *journal) end(p core.Phase)   { j.add(plan.Event{Phase: p, End: true, Rank: -1}) }

func (j *journal) say(p core.Phase, message string) {
	j.add(plan.Event{Phase: p, Rank: -1, Message: message})
}

// remark says what also belongs into the run's history.
func (j *journal) remark(p core.Phase, message string) {
	j.add(plan.Event{Phase: p, Rank: -1, Message: message, Remark: true})
}

// durations gives how long each phase took; one that was cut short counts too.
func (j *journal) durations() map[core.Phase]time.Duration {
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

// follow reports the events after a number until the one with the result.
func (j *journal) follow(ctx context.Context, after int64, fn func(plan.Event) error) error {
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
