package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// ErrUnattended is the cause with which controllers end whose runs need none.
var ErrUnattended = errors.New("the run needs no controller")

// How often Sealing looks at its runs, and pauses before it tries one again.
const (
	sealingLook         = 500 * time.Millisecond
	sealingRetry        = 5 * time.Second
	longestSealingRetry = 5 * time.Minute
)

// Sealing carries jobs out until none of their runs needs a controller: each computes, or its site
// starts it by itself, or it waits for others of these, or it is over. Then it seals the ticket of all.
//
// A controller whose run needs it no more continues until this is so for all: hosts, and turns of an
// array, become free for others only by the end of a run.
type Sealing struct {
	Controller *Controller
	// Jobs are ids of arrays, and of runs that are in none.
	Jobs []string
	Key  string
	// Stop, once closed, ends the runs.
	Stop <-chan struct{}
	// Write stores the sealed ticket.
	Write func(sealed []byte) error

	mu      sync.Mutex
	runs    map[string]*sealingRun
	changed chan struct{}
	// after is what runs wait for, and inside are all jobs.
	after  map[string][]submission.Dependency
	inside map[string]bool
}

// sealingRun is a run that this process has locked.
type sealingRun struct {
	lock *state.Lock
	stop chan struct{}
	once sync.Once
	// driven: it has a controller now.
	driven bool
	// waits: it has not begun, and waits for others.
	waits bool
	// unattended: it needs no controller, as that has reported. toEnd: only its end counts, as an
	// earlier controller of it has ended, or as it is to stop.
	unattended, toEnd bool
}

// Seal carries the runs out, and seals and stores the ticket. It returns the runs, the oldest first,
// and whether there is a ticket: there is none where all are over. After an error, the runs that are
// not over have no controller.
func (s *Sealing) Seal(ctx context.Context) (runs []state.Run, sealed bool, err error) {
	s.runs, s.changed = map[string]*sealingRun{}, make(chan struct{}, 1)
	defer s.unlock()
	if runs, err = s.all(ctx); err != nil {
		return nil, false, err
	}
	if err := s.know(runs); err != nil {
		return runs, false, err
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
	if runs, err = s.all(ctx); err != nil {
		return runs, false, err
	}
	if !slices.ContainsFunc(runs, func(r state.Run) bool { return !r.State.Final() }) {
		return runs, false, nil
	}
	err = s.ticket(ctx, runs, ids)
	return runs, err == nil, err
}

// know reads what the runs wait for.
func (s *Sealing) know(runs []state.Run) error {
	s.after, s.inside = map[string][]submission.Dependency{}, map[string]bool{}
	for _, run := range runs {
		s.inside[run.Job()] = true
	}
	for _, run := range runs {
		sub, err := submission.Of(run)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(sub.After, s.isInside) {
			s.after[run.ID] = sub.After
		}
	}
	return nil
}

// isInside reports whether a job is one of these.
func (s *Sealing) isInside(d submission.Dependency) bool { return s.inside[d.Run] }

// all returns the runs of the jobs, each after those that it waits for.
func (s *Sealing) all(ctx context.Context) (runs []state.Run, err error) {
	for _, id := range s.Jobs {
		of, err := s.Controller.Store.Arrays().Runs(ctx, id)
		if err == nil && len(of) == 0 {
			of = make([]state.Run, 1)
			of[0], err = s.Controller.Store.Run(ctx, id)
		}
		if err != nil {
			return nil, err
		}
		runs = append(runs, of...)
	}
	slices.SortStableFunc(runs, func(a, b state.Run) int { return a.Created.Compare(b.Created) })
	return runs, nil
}

// ticket makes and stores the ticket of runs, which are left to the machine that has it. From then
// on there is a ticket, whatever fails here: of two controllers of a run, its site admits one. For those
// that have not begun, no site does: nothing begins them here before the ticket is stored.
func (s *Sealing) ticket(ctx context.Context, runs []state.Run, ids []string) error {
	ticket, err := s.Controller.Seal(ctx, s.Key, ids...)
	if err != nil {
		return err
	}
	undo, err := s.leaveWaiting(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.Write(ticket); err != nil {
		return errors.Join(err, undo())
	}
	for i := range runs {
		if runs[i].State.Final() {
			continue
		}
		run, err := s.Controller.HandOver(context.WithoutCancel(ctx), runs[i].ID)
		if err != nil {
			s.Controller.Log.Warn("leave a run to the machine that has its ticket", "run", runs[i].ID, "err", err)
			continue
		}
		runs[i] = run
	}
	return nil
}

// leaveWaiting leaves the runs that have not begun to the machine that will have the ticket: all of them,
// or none. undo has them wait here again.
func (s *Sealing) leaveWaiting(ctx context.Context, ids []string) (undo func() error, err error) {
	store := s.Controller.Store
	var before, left []state.Run
	for _, id := range ids {
		run, err := store.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		if run.State.Final() {
			continue
		}
		attempts, err := store.Attempts(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(attempts) == 0 {
			before, left = append(before, run), append(left, handedOver(run, false))
		}
	}
	if len(left) > 0 {
		_, err = store.Write(ctx, state.Change{New: left, Durable: true})
	}
	return func() error {
		_, err := store.Write(context.WithoutCancel(ctx), state.Change{New: before})
		return err
	}, err
}

// carry has controllers for runs until each of them is over or needs none.
func (s *Sealing) carry(ctx context.Context, ids []string) error {
	work, end := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	defer func() { end(ErrUnattended); all.Wait() }()
	look := time.NewTicker(sealingLook)
	defer look.Stop()
	for stop := s.Stop; ; {
		live, err := state.Live(ctx, s.Controller.Store)
		if err != nil {
			return err
		}
		waits, err := s.waiting(ctx, live)
		if err != nil {
			return err
		}
		due, err := s.due(ctx, live)
		if err != nil {
			return err
		}
		isDue := make(map[string]bool, len(due))
		for _, id := range due {
			_, is := waits[id]
			if err := s.begin(work, &all, id, is); err != nil {
				return err
			}
			isDue[id] = true
		}
		if needed, err := s.needed(ids, live, waits, isDue); err != nil || !needed {
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

// due returns the runs whose turn has come. No process of this machine begins another one.
func (s *Sealing) due(ctx context.Context, live map[string]state.RunState) (due []string, err error) {
	for _, job := range s.Jobs {
		if _, is := live[job]; is {
			due = append(due, job)
			continue
		}
		cases, err := s.Controller.Store.Arrays().Due(ctx, job)
		if err != nil {
			return nil, err
		}
		due = append(due, cases...)
	}
	return due, nil
}

// waiting returns the runs that have not begun and wait for others: true, where all of these are in
// the ticket. Where one of them has ended otherwise than the run waits for, that begins, and fails.
func (s *Sealing) waiting(ctx context.Context, live map[string]state.RunState) (map[string]bool, error) {
	type look struct{ ended, never bool }
	seen, waits := map[submission.Dependency]look{}, map[string]bool{}
	for id, after := range s.after {
		if in, is := live[id]; !is || in != state.Queued || s.begun(id) {
			continue
		}
		open, inside, never := false, true, false
		for _, d := range after {
			l, is := seen[d]
			if !is {
				now, _, err := d.Look(ctx, s.Controller.Store)
				if err != nil && !core.IsKind(err, core.NotFound) {
					return nil, err
				}
				l = look{ended: err == nil && now.Final(), never: err != nil || now.Final() && !d.Met(now)}
				seen[d] = l
			}
			never = never || l.never
			if !l.ended && !l.never {
				open, inside = true, inside && s.isInside(d)
			}
		}
		if open && !never {
			waits[id] = inside
		}
	}
	return waits, nil
}

// begun reports whether a run has had a controller here.
func (s *Sealing) begun(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.runs[id]
	return one != nil && !one.waits
}

// needed reports whether a run needs a controller. One that waits is locked here if its turn has come,
// or another process may have begun it.
func (s *Sealing) needed(ids []string, live map[string]state.RunState, waits, due map[string]bool) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	needed := false
	for _, id := range ids {
		in, is := live[id]
		if is && in.Resumable() {
			return false, &core.Error{
				Kind: core.Permanent, Op: "make a ticket with run", Object: id, Err: fmt.Errorf("it is %s", in),
				Remedy: "See `bee show " + id + "`. The others continue on this machine.",
			}
		}
		switch one := s.runs[id]; {
		case !is:
		case one == nil:
			needed = needed || due[id] || !waits[id]
		default:
			needed = needed || one.toEnd || !one.unattended && !(one.waits && waits[id])
		}
	}
	return needed, nil
}

// begin has a controller for a run, unless it has one, here or in another process, or needs none, or
// waits for others.
func (s *Sealing) begin(ctx context.Context, all *sync.WaitGroup, id string, waits bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	one := s.runs[id]
	if one == nil {
		lock, err := s.Controller.Store.Locks().Acquire(id)
		if core.IsKind(err, core.Busy) { // the other one ends it
			return nil
		}
		if err != nil {
			return err
		}
		one = &sealingRun{lock: lock, stop: make(chan struct{}), waits: waits}
		s.runs[id] = one
	}
	if one.waits = one.waits && waits && !one.toEnd; one.waits || one.driven || one.unattended && !one.toEnd {
		return nil
	}
	one.driven = true
	all.Go(func() {
		s.drive(ctx, id, one)
		s.change(func() { one.driven = false })
	})
	return nil
}

// drive is the controller of a run. What fails may pass, as for a supervisor.
func (s *Sealing) drive(ctx context.Context, id string, one *sealingRun) {
	retry := fsutil.Backoff{First: sealingRetry, Longest: longestSealingRetry}
	for {
		c := *s.Controller
		c.Unattended = func() { s.change(func() { one.unattended = true }) }
		_, err := c.Drive(ctx, id, one.stop)
		if err == nil || ctx.Err() != nil {
			return
		}
		c.Log.Warn("carry out a run", "run", id, "err", err)
		s.change(func() { one.toEnd = true })
		if retry.Wait(ctx) != nil {
			return
		}
	}
}

// change changes what is known of a run, at which carry looks.
func (s *Sealing) change(what func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	what()
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// stragglers finds runs that are not over, and of which no ticket can be made, such as those whose
// outputs were being collected. They are carried to their end here. One whose wait is over begins.
func (s *Sealing) stragglers(ctx context.Context, ids []string) (bool, error) {
	live, err := state.Live(ctx, s.Controller.Store)
	if err != nil {
		return false, err
	}
	waits, err := s.waiting(ctx, live)
	if err != nil {
		return false, err
	}
	found := false
	for _, id := range ids {
		if _, is := live[id]; !is || waits[id] {
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
			if one := s.runs[id]; one != nil && !one.waits {
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

// askStops records that the user wants the end of all runs.
func (s *Sealing) askStops(ctx context.Context) error {
	for _, job := range s.Jobs {
		if _, err := s.Controller.StopWaiting(ctx, job); err != nil { // of a job that is one run, none waits for its turn
			return err
		}
	}
	s.mu.Lock()
	ids := make([]string, 0, len(s.runs))
	for id := range s.runs {
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

// passStops has controllers end those runs that were asked to stop.
func (s *Sealing) passStops(ctx context.Context) error {
	ids, err := s.Controller.Store.Requests().Stopping(ctx)
	if err != nil {
		return err
	}
	s.change(func() {
		for _, id := range ids {
			if one := s.runs[id]; one != nil {
				one.toEnd = true
				one.once.Do(func() { close(one.stop) })
			}
		}
	})
	return nil
}

// unlock leaves the runs to others.
func (s *Sealing) unlock() {
	for id, one := range s.runs {
		if err := one.lock.Unlock(); err != nil {
			s.Controller.Log.Warn("unlock run", "run", id, "err", err)
		}
	}
}
