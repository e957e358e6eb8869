package headlink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// liar is a head that says what a test has it say.
type liar struct {
	Head
	events []protocol.Event
	err    error // after them
}

func (h *liar) Watch(_ context.Context, _ int64, fn func(protocol.Event) error) error {
	for _, e := range h.events {
		if err := fn(e); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
	}
	return h.err
}

// TestCheckedWatch: a head that lies is lost, and one whose connection breaks is not.
func TestCheckedWatch(t *testing.T) {
	at := ended()
	event := func(seq int64, change func(*protocol.Event)) protocol.Event {
		e := protocol.Event{Seq: seq, Time: at, Phase: core.PhaseRun, Begin: true}
		if change != nil {
			change(&e)
		}
		return e
	}
	enough := errors.New("enough")
	garbage := &core.Error{Kind: core.Invalid, Err: errors.New("no event")}
	for name, c := range map[string]struct {
		after  int64
		events []protocol.Event
		err    error
		passes int  // events
		lies   bool // and is lost for it
		is     error
	}{
		"what a head says":       {events: []protocol.Event{event(1, nil), event(2, nil), event(5, nil)}, passes: 3},
		"events that come later": {after: 4, events: []protocol.Event{event(5, nil)}, passes: 1},
		"one that was there":     {after: 5, events: []protocol.Event{event(5, nil)}, lies: true},
		"one twice":              {events: []protocol.Event{event(1, nil), event(1, nil)}, passes: 1, lies: true},
		"a node that is none":    {events: []protocol.Event{event(1, func(e *protocol.Event) { e.Rank = 2 })}, lies: true},
		"an unasked checkpoint":  {events: []protocol.Event{event(1, func(e *protocol.Event) { e.Snapshot = 1 })}, lies: true},
		"negative bytes":         {events: []protocol.Event{event(1, func(e *protocol.Event) { e.Bytes = -1 })}, lies: true},
		"a result of strangers": {events: []protocol.Event{event(1, func(e *protocol.Event) {
			e.Result = &protocol.Result{Nodes: []core.NodeReport{{Rank: 7}}}
		})}, lies: true},
		"garbage":                       {err: fmt.Errorf("read: %w", garbage), lies: true, is: garbage},
		"garbage after the first":       {events: []protocol.Event{event(1, nil)}, err: garbage, passes: 1, lies: true},
		"a connection that breaks":      {events: []protocol.Event{event(1, nil)}, err: io.ErrUnexpectedEOF, passes: 1, is: io.ErrUnexpectedEOF},
		"a reader that has read enough": {events: []protocol.Event{event(1, func(e *protocol.Event) { e.Message = "last" }), event(2, nil)}, passes: 1, is: enough},
	} {
		t.Run(name, func(t *testing.T) {
			f := filesOf(t, &fakeLease{}, protocol.Asked{Nodes: 2})
			passed := 0
			err := f.Checked(&liar{events: c.events, err: c.err}).Watch(t.Context(), c.after, func(e protocol.Event) error {
				passed++
				if e.Message == "last" {
					return enough
				}
				return nil
			})
			if passed != c.passes {
				t.Errorf("%d events passed, expected %d", passed, c.passes)
			}
			lied := errors.As(err, new(InvalidReport))
			if lied != c.lies || lied && (!core.IsKind(err, core.Lost) || core.Remedy(err) == "" || !strings.Contains(err.Error(), "site a")) {
				t.Errorf("got %v", err)
			}
			if c.is != nil && !errors.Is(err, c.is) || !c.lies && c.is == nil && err != nil {
				t.Errorf("got %v, expected %v", err, c.is)
			}
		})
	}
}

// TestInvalid: a report is invalid once, whoever says it again.
func TestInvalid(t *testing.T) {
	f := filesOf(t, &fakeLease{}, protocol.Asked{Nodes: 1})
	if err := f.Invalid(nil); err != nil {
		t.Errorf("nothing is %v", err)
	}
	cause := errors.New("seq is 0")
	once := f.Invalid(cause)
	own, is := errors.AsType[*core.Error](once)
	if again := f.Invalid(fmt.Errorf("again: %w", once)); !errors.Is(again, cause) || !is || strings.Count(again.Error(), own.Op) != 1 {
		t.Errorf("got %v", again)
	}
}
