package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// otherMachine is a site that is there on another machine, and here holds nothing.
type otherMachine struct{ driver.Provider }

func (otherMachine) Recover(context.Context, core.Handle) (driver.Lease, error) {
	return nil, &core.Error{Kind: core.Transient, Err: errors.New("it is on host login1")}
}

// TestWhatIsOnAnotherMachineIsNotHeldForReleased by the list of what is here.
func TestWhatIsOnAnotherMachineIsNotHeldForReleased(t *testing.T) {
	w := newWorld(t, "a")
	w.Provider = func(spec.Site) (driver.Provider, error) { return otherMachine{w.sites["a"]}, nil }
	sub, err := json.Marshal(submission.Submission{Version: submission.Version, Job: spec.Job{Name: "j", Nodes: 1}, Sites: []spec.Site{{Name: "a", Provider: "fake"}}})
	if err != nil {
		t.Fatal(err)
	}
	run := state.Run{ID: "aaaa1111", Name: "j", State: state.Stopped, Created: time.Now(), Submission: sub}
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	lease := &core.Handle{Driver: "fake", Owner: core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}}
	if err := w.Store.PutAttempt(t.Context(), state.Attempt{Run: run.ID, N: 1, Site: "a", Lease: lease, Started: time.Now()}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Drive(t.Context(), run.ID, nil); !core.IsKind(err, core.Transient) {
		t.Errorf("got %v, want that it is elsewhere", err)
	}
	if a := w.attempts(t, run); len(a) != 1 || a[0].Released() {
		t.Errorf("it is held for released: %+v", a)
	}
}

// TestARunOfAnotherVersionOfBee is not ended by this one: its job may be computing, and
// that version can continue it.
func TestARunOfAnotherVersionOfBee(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submit(t)
	run.Submission = bytes.Replace(run.Submission, fmt.Appendf(nil, `"version":%d`, submission.Version), fmt.Appendf(nil, `"version":%d`, submission.Version+98), 1)
	run.State = state.Running
	if err := w.Store.PutRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	got, err := w.Drive(t.Context(), run.ID, nil)
	if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" || got.State != state.Running {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := w.Store.Run(t.Context(), run.ID); err != nil || got.State != state.Running {
		t.Errorf("on record: %+v, %v", got, err)
	}
}

// TestAnAttemptOfABeeWithOtherNodes is left as it is, however this bee comes to its run, until
// its user ends it.
func TestAnAttemptOfABeeWithOtherNodes(t *testing.T) {
	for name, c := range map[string]struct {
		rec  state.Record
		stop bool
		left bool
	}{
		"other nodes":        {rec: state.Record{Binary: "another", Protocol: protocol.Version + 1}, left: true},
		"asked to stop":      {rec: state.Record{Binary: "another", Protocol: protocol.Version + 1}, stop: true},
		"nodes alike":        {rec: state.Record{Binary: "another", Protocol: protocol.Version}},
		"this bee":           {rec: state.Record{Binary: "own", Protocol: protocol.Version + 1}},
		"before the records": {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "a")
			w.Digest = "own"
			run := w.submit(t)
			run.State = state.Running
			at := state.Attempt{Run: run.ID, N: 1, Site: "a", State: state.Acquiring, Started: time.Now(), Record: c.rec}
			if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), at, false)); err != nil {
				t.Fatal(err)
			}
			if c.stop {
				if err := w.Store.Requests().AskStop(t.Context(), run.ID); err != nil {
					t.Fatal(err)
				}
			}
			got, err := w.Drive(t.Context(), run.ID, nil)
			if left := core.IsKind(err, core.Unsupported); left != c.left || left && core.Remedy(err) == "" {
				t.Fatalf("got %+v, %v", got, err)
			}
			list := w.attempts(t, run)
			if c.left && (list[0].State != state.Acquiring || got.State != state.Running) || !c.left && !list[0].Released() {
				t.Errorf("the run is %s, its attempts %+v", got.State, list)
			}
			if last := list[len(list)-1]; len(list) > 1 && (last.Binary != "own" || last.Protocol != protocol.Version) {
				t.Errorf("the next attempt is recorded as %+v", last.Record)
			}
		})
	}
}

// reclaimed is a site that has taken its hosts back.
type reclaimed struct{ driver.Provider }

func (reclaimed) Recover(context.Context, core.Handle) (driver.Lease, error) {
	return nil, &core.Error{Kind: core.NotFound, Err: &core.GoneError{End: core.HostsReclaimed, Err: errors.New("machine m was reclaimed")}}
}

// TestHostsThatWereReclaimed: the end of the attempt has their site's reason, also for a controller that comes later.
func TestHostsThatWereReclaimed(t *testing.T) {
	for _, listed := range []bool{false, true} {
		w := newWorld(t, "a")
		run := w.submit(t)
		run.State = state.Running
		at := state.Attempt{
			Run: run.ID, N: 1, Site: "a", Provider: "fake", State: state.Computing, Started: time.Now(),
			Lease: &core.Handle{Driver: "fake", Owner: core.Owner{User: w.Store.User(), Run: run.ID, Attempt: 1}}, Record: state.Record{TaskBegan: true},
		}
		if listed {
			w.sites["a"].Held[at.Lease.Owner], w.sites["a"].Head, w.sites["a"].Over, w.sites["a"].HostsEnd = true, nil, true, core.HostsReclaimed
		} else {
			w.Provider = func(spec.Site) (driver.Provider, error) { return reclaimed{w.sites["a"]}, nil }
		}
		if err := errors.Join(w.Store.PutRun(t.Context(), run), w.Store.PutAttempt(t.Context(), at, false)); err != nil {
			t.Fatal(err)
		}
		got, err := w.Drive(t.Context(), run.ID, nil)
		if err != nil || got.State != state.Failed {
			t.Errorf("listed: %t, the run is %s, %v", listed, got.State, err)
		}
		if list := w.attempts(t, run); len(list) != 1 || list[0].HostsEnd != core.HostsReclaimed || core.KindNamed(list[0].Kind) != core.Lost || !list[0].Released() {
			t.Errorf("listed: %t, got %+v", listed, list)
		}
	}
}

// keptJournal is a lease whose head has left a journal.
type keptJournal struct {
	driver.Lease
	text string
}

func (k keptJournal) Hosts() []core.Host { return []core.Host{{Dir: "/d"}} }

func (k keptJournal) Fetch(_ context.Context, t driver.Transfer) error {
	return os.WriteFile(t.Local, []byte(k.text), 0o600)
}

// TestALongLineOfAJournal, such as the result of thousands of hosts, is read as any other.
func TestALongLineOfAJournal(t *testing.T) {
	w := newWorld(t, "a")
	run := w.submitJob(t, controltest.Movable())
	if err := os.MkdirAll(w.Store.RunDir(run.ID), 0o700); err != nil {
		t.Fatal(err)
	}
	long := `{"seq":2,"remark":true,"result":{"outputs":[` + strings.TrimSuffix(strings.Repeat(`{"index":0,"path":"volume/x"},`, 1e5), ",") + `]}}`
	sub := submission.Submission{Job: controltest.Movable()}
	sub.Job.Outputs = []spec.Output{{}}
	a := attemptOf(control(w.Runner, run, sub), &drive{}, spec.Site{}, nil, state.Attempt{})
	a.at.lease = keptJournal{text: "{\"seq\":1,\"message\":\"first\"}\n" + long + "\n{\"seq\":3,\"message\":\"last\"}\n{\"mess"}
	var lengths []int
	if err := a.at.headFiles().Journal(t.Context(), func(e protocol.Event) bool {
		n := len(e.Message)
		if e.Result != nil {
			n = len(e.Result.Outputs)
		}
		lengths = append(lengths, n)
		return false
	}); err != nil || !slices.Equal(lengths, []int{5, 1e5, 4}) {
		t.Errorf("read %v: %v", lengths, err)
	}
}
