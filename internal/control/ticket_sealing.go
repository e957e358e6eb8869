package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// ErrUnattended is the cause with which controllers end whose runs need none.
var ErrUnattended = errors.New("the run needs no controller")

// How often ArraySealing looks at its cases, and pauses before it tries one again.
const (
	sealingLook         = 500 * time.Millisecond
	sealingRetry        = 5 * time.Second
	longestSealingRetry = 5 * time.Minute
)

// ArraySealing carries an array out until none of its cases needs a controller: each computes, or
// its site starts it by itself, or it is over. Then it seals the ticket of the array.
//
// A controller whose case needs it no more continues until this is so for all: hosts, and turns of
// the array, become free for others only by the end of a case.
type ArraySealing struct {
	Controller *Controller
	Array, Key string
	// Stop, once closed, ends the cases.
	Stop <-chan struct{}
	// Write stores the sealed ticket.
	Write func(sealed []byte) error

	mu      sync.Mutex
	cases   map[string]*sealingCase
	changed chan struct{}
}

// sealingCase is a case that has begun.
type sealingCase struct {
	lock *state.Lock
	stop chan struct{}
	once sync.Once
	// driven: it has a controller now.
	driven bool
	// unattended: it needs no controller, as that has reported. toEnd: only its end counts, as an
	// earlier controller of it has ended, or as it is to stop.
	unattended, toEnd bool
}

// Seal carries the cases out, and seals and stores the ticket. It returns the cases, and whether
// there is a ticket: there is none where all are over. After an error, the cases that are not
// over have no controller.
func (s *ArraySealing) Seal(ctx context.Context) (runs []state.Run, sealed bool, err error) {
	s.cases, s.changed = map[string]*sealingCase{}, make(chan struct{}, 1)
	defer s.unlock()
	store := s.Controller.Store
	if runs, err = store.Arrays().Runs(ctx, s.Array); err != nil {
		return nil, false, err
	}
	ids := make([]string, len(runs))
	for i, run := range runs {
		ids[i] = run.ID
	}
	for again := true; again; {
		if err := s.carry(ctx, ids); err != nil {
			return runs, false, err
		}
		if again, err = s.stragglers(ctx, ids); err != nil {
			return runs, false, err
		}
	}
	if runs, err = store.Arrays().Runs(ctx, s.Array); err != nil {
		return runs, false, err
	}
	if !slices.ContainsFunc(runs, func(r state.Run) bool { return !r.State.Final() }) {
		return runs, false, nil
	}
	err = s.ticket(ctx, runs, ids)
	return runs, err == nil, err
}

// ticket makes and stores the ticket of cases, which are left to the machine that has it. From then
// on there is a ticket, whatever fails here: of two controllers of a case, its site admits one.
func (s *ArraySealing) ticket(ctx context.Context, runs []state.Run, ids []string) error {
	ticket, err := s.Controller.Seal(ctx, s.Key, ids...)
	if err == nil {
		err = s.Write(ticket)
	}
	if err != nil {
		return err
	}
	for i := range runs {
		if runs[i].State.Final() {
			continue
		}
		run, err := s.Controller.HandOver(context.WithoutCancel(ctx), runs[i].ID)
		if err != nil {
			s.Controller.Log.Warn("leave a case to the machine that has its ticket", "run", runs[i].ID, "err", err)
			continue
		}
		runs[i] = run
	}
	return nil
}

// carry has controllers for cases until each of them is over or needs none.
func (s *ArraySealing) carry(ctx context.Context, ids []string) error {
	work, end := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer func() { end(ErrUnattended); all.Wait() }()
	look := time.NewTicker(sealingLook)
	defer look.Stop()
	for stop := s.Stop; ; {
		due, err := s.Controller.Store.Arrays().Due(ctx, s.Array)
		if err != nil {
			return err
		}
		for _, id := range due {
			if err := s.begin(work, &all, id); err != nil {
				return err
			}
		}
		if needed, err := s.needed(ctx, ids); err != nil || !needed {
			return err
		}
		select {
		case <-stop:
			stop = nil
			err = s.askStops(ctx)
		case <-s.changed:
		case <-look.C:
			err = s.passStops(ctx)
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// needed reports whether a case needs a controller.
func (s *ArraySealing) needed(ctx context.Context, ids []string) (bool, error) {
	live, err := state.Live(ctx, s.Controller.Store)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := false
	for _, id := range ids {
		in, is := live[id]
		if is && in.Resumable() {
			return false, &core.Error{
				Kind: core.Permanent, Op: "make a ticket of array", Object: s.Array, Err: fmt.Errorf("its case %s is %s", id, in),
				Remedy: "See `bee show " + id + "`. The array continues on this machine.",
			}
		}
		one := s.cases[id]
		needed = needed || is && (one == nil || one.toEnd || !one.unattended)
	}
	return needed, nil
}

// begin has a controller for a case, unless it has one, here or in another process, or needs none.
func (s *ArraySealing) begin(ctx context.Context, all *sync.WaitGroup, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.cases[id]
	if one == nil {
		lock, err := s.Controller.Store.Locks().Acquire(id)
		if core.IsKind(err, core.Busy) { // the other one ends it
			return nil
		}
		if err != nil {
			return err
		}
		one = &sealingCase{lock: lock, stop: make(chan struct{})}
		s.cases[id] = one
	}
	if one.driven || one.unattended && !one.toEnd {
		return nil
	}
	one.driven = true
	all.Go(func() {
		s.drive(ctx, id, one)
		s.change(func() { one.driven = false })
	})
	return nil
}

// drive is the controller of a case. What fails may pass, as for a supervisor.
func (s *ArraySealing) drive(ctx context.Context, id string, one *sealingCase) {
	retry := fsutil.Backoff{First: sealingRetry, Longest: longestSealingRetry}
	for {
		c := *s.Controller
		c.Unattended = func() { s.change(func() { one.unattended = true }) }
		_, err := c.Drive(ctx, id, one.stop)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.Log.Warn("carry out a case", "run", id, "err", err)
		s.change(func() { one.toEnd = true })
		if retry.Wait(ctx) != nil {
			return
		}
	}
}

// change changes what is known of a case, at which carry looks.
func (s *ArraySealing) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// stragglers finds cases that are not over, and of which no ticket can be made, such as those whose
// outputs were being collected. They are carried to their end here.
func (s *ArraySealing) stragglers(ctx context.Context, ids []string) (bool, error) {
	live, err := state.Live(ctx, s.Controller.Store)
	if err != nil {
		return false, err
	}
	found := false
	for _, id := range ids {
		if _, is := live[id]; !is {
			continue
		}
		attempts, err := s.Controller.Store.Attempts(ctx, id)
		if err != nil {
			return false, err
		}
		if n := len(attempts); n > 0 && needsNone(attempts[n-1]) {
			continue
		}
		s.change(func() {
			if one := s.cases[id]; one != nil {
				one.toEnd = true
			}
		})
		found = true
	}
	return found, nil
}

// needsNone reports whether an attempt continues without a controller.
func needsNone(a state.Attempt) bool {
	switch a.State {
	case state.Computing, state.Checkpointing:
		return true
	case state.InQueue, state.Starting:
		return a.Autostart.MayStart()
	default:
		return false
	}
}

// askStops records that the user wants the end of all cases.
func (s *ArraySealing) askStops(ctx context.Context) error {
	if _, err := s.Controller.StopWaiting(ctx, s.Array); err != nil {
		return err
	}
	s.mu.Lock()
	ids := make([]string, 0, len(s.cases))
	for id := range s.cases {
		ids = append(ids, id)
	}
	s.mu.Unlock()
	for _, id := range ids {
		run, err := s.Controller.Store.Run(ctx, id)
		if err == nil && !run.State.Final() {
			err = s.Controller.Store.Requests().AskStop(ctx, id)
		}
		if err != nil {
			return err
		}
	}
	return s.passStops(ctx)
}

// passStops has controllers end those cases that were asked to stop.
func (s *ArraySealing) passStops(ctx context.Context) error {
	ids, err := s.Controller.Store.Requests().Stopping(ctx)
	if err != nil {
		return err
	}
	s.change(func() {
		for _, id := range ids {
			if one := s.cases[id]; one != nil {
				one.toEnd = true
				one.once.Do(func() { close(one.stop) })
			}
		}
	})
	return nil
}

// unlock leaves the cases to others.
func (s *ArraySealing) unlock() {
	for id, one := range s.cases {
		if err := one.lock.Unlock(); err != nil {
			s.Controller.Log.Warn("unlock run", "run", id, "err", err)
		}
	}
}
