package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/state"
)

// storeOf returns a store with runs.
func storeOf(t *testing.T, runs ...state.Run) *state.Store {
	t.Helper()
	store, err := state.Open(t.Context(), filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for i, r := range runs {
		r.Created, r.Submission = time.Now().Add(time.Duration(i)*time.Second), []byte("{}")
		if err := store.PutRun(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func newSupervisor(store *state.Store, inbox string) *Supervisor {
	return &Supervisor{Store: store, Log: slog.New(slog.DiscardHandler), Inbox: inbox}
}

// TestRunsThatAreLeftLateAreNotForgotten: a run that its user resumes or stops just when its
// controller has ended gets another one.
func TestRunsThatAreLeftLateAreNotForgotten(t *testing.T) {
	store := storeOf(t, state.Run{ID: "resumed1", State: state.Queued}, state.Run{ID: "stopped1", State: state.Suspended},
		state.Run{ID: "waiting1", State: state.Suspended}, state.Run{ID: "ended111", State: state.Succeeded}, state.Run{ID: "another1", State: state.Running})
	if err := store.Requests().AskStop(t.Context(), "stopped1"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Locks().Acquire("another1"); err != nil { // as another supervisor does
		t.Fatal(err)
	}
	v := newSupervisor(store, t.TempDir())
	for id, again := range map[string]bool{"resumed1": true, "stopped1": true, "waiting1": false, "ended111": false, "another1": false, "removed1": false} {
		v.add(id)
		if lock := v.forget(t.Context(), id); (lock != nil) != again || (v.runs[id] != nil) != again {
			t.Errorf("%s: got a lock %v, known %v; want %v", id, lock != nil, v.runs[id] != nil, again)
		}
	}
}

// TestARunThatIsLeftIsNoOrphan, to no command that comes before a busy supervisor has taken
// the run: each would start a process, and all of these take the supervisor's processors.
// Where the supervisor has ended, the run is one.
func TestARunThatIsLeftIsNoOrphan(t *testing.T) {
	store := storeOf(t, state.Run{ID: "handed11", State: state.Queued}, state.Run{ID: "orphan11", State: state.Queued})
	lock, err := store.Supervisors().Lock("key")
	if err != nil {
		t.Fatal(err)
	}
	if err := Leave(store.Supervisors().Dir("key"), []string{"handed11"}); err != nil {
		t.Fatal(err)
	}
	if !IsLeft(store, "handed11") || IsLeft(store, "orphan11") {
		t.Errorf("left: %v, and one that nobody has left: %v", IsLeft(store, "handed11"), IsLeft(store, "orphan11"))
	}
	if err := lock.Unlock(); err != nil {
		t.Fatal(err)
	}
	if IsLeft(store, "handed11") {
		t.Error("a run is left for a supervisor that has ended")
	}
}

// TestASupervisorSeesStopsThatAreOnlyRecorded, of its own runs.
func TestASupervisorSeesStopsThatAreOnlyRecorded(t *testing.T) {
	store := storeOf(t, state.Run{ID: "stopped1", State: state.Running}, state.Run{ID: "another1", State: state.Running}, state.Run{ID: "goeson11", State: state.Running})
	v := newSupervisor(store, filepath.Join(t.TempDir(), "inbox"))
	stopped, other := v.add("stopped1"), v.add("goeson11")
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- v.Serve(ctx) }()
	for _, id := range []string{"stopped1", "another1"} {
		if err := store.Requests().AskStop(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	<-stopped.stop.Asked()
	cancel()
	if err := <-served; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	select {
	case <-other.stop.Asked():
		t.Error("a run ends that nobody has asked to")
	default:
	}
}

// TestRunsOfAnInboxAreControlledToTheirEnd: a controller that fails is followed by another
// as soon as the run is left again, and the supervisor ends with its last run.
func TestRunsOfAnInboxAreControlledToTheirEnd(t *testing.T) {
	store := storeOf(t, state.Run{ID: "fails111", State: state.Queued})
	inbox := store.Supervisors().Dir("key")
	if err := Leave(inbox, []string{"fails111"}); err != nil {
		t.Fatal(err)
	}
	tries := 0
	err := ServeOrLeave(t.Context(), store, "key", []string{"fails111"}, func(ctx context.Context, inbox string) error {
		v := newSupervisor(store, inbox)
		v.Control = func(ctx context.Context, id string, _ *Stop, _ time.Duration) error {
			if tries++; tries == 1 {
				return errors.Join(errors.New("the disk is full"), Leave(inbox, []string{id}))
			}
			run, err := store.Run(ctx, id)
			run.State = state.Succeeded
			return errors.Join(err, store.PutRun(ctx, run))
		}
		return v.Serve(ctx)
	})
	if err != nil || tries != 2 {
		t.Errorf("%d controllers, %v; want 2", tries, err)
	}
	if run, err := store.Run(t.Context(), "fails111"); err != nil || run.State != state.Succeeded {
		t.Errorf("got %s, %v", run.State, err)
	}
}

// TestCasesAreTakenInTurn: of an array, no case has a controller before its turn, and each
// has one then.
func TestCasesAreTakenInTurn(t *testing.T) {
	var runs []state.Run
	for i := range 5 {
		runs = append(runs, state.Run{ID: fmt.Sprintf("case000%d", i+1), State: state.Queued, Case: state.Case{Array: "array", Name: "model", Number: i + 1, AtOnce: 2}})
	}
	store := storeOf(t, runs...)
	inbox := store.Supervisors().Dir("key")
	due, err := store.Arrays().Due(t.Context(), "array")
	if err != nil || len(due) != 2 {
		t.Fatalf("%v: %v", err, due)
	}
	if err := Leave(inbox, due); err != nil {
		t.Fatal(err)
	}
	var now, most, all atomic.Int32
	err = ServeOrLeave(t.Context(), store, "key", due, func(ctx context.Context, inbox string) error {
		v := newSupervisor(store, inbox)
		v.Control = func(ctx context.Context, id string, _ *Stop, _ time.Duration) error {
			all.Add(1)
			defer now.Add(-1)
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			run, err := store.Run(ctx, id)
			run.State = state.Succeeded
			return errors.Join(err, store.PutRun(ctx, run))
		}
		return v.Serve(ctx)
	})
	if live, lerr := state.Live(t.Context(), store); err != nil || lerr != nil || len(live) != 0 || all.Load() != 5 || most.Load() > 2 {
		t.Errorf("%v, %v: %v are not over; %d controllers, %d at once", err, lerr, live, all.Load(), most.Load())
	}
}
