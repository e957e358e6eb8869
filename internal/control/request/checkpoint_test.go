package request

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/control/controltest"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/client"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/wire"
)

// unanswered is the error of a call which a head has accepted that dies then.
func unanswered(t *testing.T) error {
	t.Helper()
	ours, theirs := net.Pipe()
	head, err := rpc.NewPeer(theirs, false, "controller", wire.Prompt, nodecall.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	s := rpc.NewServer(nil)
	rpc.Handle(s, nodecall.CallSave, func(_ context.Context, c rpc.Caller, _ nodecall.SaveRequest) (nodecall.SaveReply, error) {
		c.Peer.Close()
		return nodecall.SaveReply{}, nil
	})
	go head.Serve(context.Background(), s, rpc.Caller{Role: rpc.Controller})
	c, err := client.New(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err = c.Save(t.Context(), true); !core.IsKind(err, core.Lost) {
		t.Fatalf("a head that dies gives %v", err)
	}
	return err
}

// TestACallThatAHeadAcceptsAndDies: the record, or a head that still runs, shows the result of
// the call. The request to move stays open until it is certain that no head has received it.
func TestACallThatAHeadAcceptsAndDies(t *testing.T) {
	lost := unanswered(t)
	gone := &core.Error{Kind: core.NotFound, Err: errors.New("nobody listens")}
	plain := state.Attempt{State: state.Computing}
	for name, c := range map[string]struct {
		attempts []state.Attempt // the last one of them is written while the caller waits
		run      state.RunState
		again    error // of a further call
		kind     core.Kind
		ok       bool
		result   state.RequestResult
	}{
		"it asks its job":          {attempts: []state.Attempt{plain, {State: state.Checkpointing}}, again: gone, ok: true},
		"it has a checkpoint":      {attempts: []state.Attempt{plain, {State: state.Collecting, Result: state.Checkpointed}}, again: gone, ok: true},
		"its run continues":        {attempts: []state.Attempt{plain, {State: state.Closed, Result: state.Unreported, Verdict: state.ContinuesLost}}, again: gone, ok: true},
		"its run is elsewhere":     {attempts: []state.Attempt{plain, {N: 2, State: state.Acquiring}}, again: gone, ok: true},
		"it is there and asked":    {attempts: []state.Attempt{plain}, again: &core.Error{Kind: core.Busy, Err: errors.New("asked before")}, ok: true},
		"it is there and is asked": {attempts: []state.Attempt{plain}, ok: true},
		"it cannot":                {attempts: []state.Attempt{plain}, again: &core.Error{Kind: core.Unsupported, Err: errors.New("no checkpoint")}, kind: core.Unsupported, result: state.RequestRefused},
		"its run is lost":          {attempts: []state.Attempt{plain, {State: state.Closed, Result: state.Unreported, Verdict: state.NotContinued}}, run: state.Failed, again: gone, kind: core.Lost, result: state.RequestOvertaken},
		"its run is done":          {attempts: []state.Attempt{plain, {State: state.Closed, Result: state.Exited, Verdict: state.Completed}}, run: state.Succeeded, again: gone, kind: core.NotFound, result: state.RequestOvertaken},
		"nobody knows":             {attempts: []state.Attempt{plain}, again: gone, kind: core.Transient},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, err := state.Open(t.Context(), t.TempDir())
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				run, _ := controltest.Submit(t, store, controltest.Movable(), []string{"a", "b"})
				put := func(a state.Attempt) {
					a.Run, a.N, a.Site, a.Started = run.ID, max(a.N, 1), "a", time.Now()
					if err := store.PutAttempt(context.Background(), a, false); err != nil {
						t.Error(err)
					}
				}
				put(c.attempts[0])
				time.AfterFunc(5*time.Second, func() {
					put(c.attempts[len(c.attempts)-1])
					if c.run != "" {
						run.State, run.Kind, run.Message = c.run, core.Lost.String(), "host f0 was lost"
						if err := store.PutRun(context.Background(), run); err != nil {
							t.Error(err)
						}
					}
				})
				err = lost
				got := (Requests{Store: store}).Move(t.Context(), run, 1, controltest.Sites("b"), func() error { now := err; err = c.again; return now })
				if (got == nil) != c.ok || got != nil && (core.KindOf(got) != c.kind || core.Remedy(got) == "" && c.kind != core.Unsupported) {
					t.Errorf("got %v, kind %v", got, core.KindOf(got))
				}
				list, oerr := store.Requests().Of(t.Context(), run.ID)
				if oerr != nil || len(list) != 1 || list[0].Result != c.result || list[0].Attempt != 1 {
					t.Errorf("requests %+v, %v", list, oerr)
				}
			})
		})
	}
}
