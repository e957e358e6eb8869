package transfer

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// TestBrokenConnectionsAreTriedAgain, for a minute, and only those.
func TestBrokenConnectionsAreTriedAgain(t *testing.T) {
	lost := &core.Error{Kind: core.Permanent, Err: &core.Error{Kind: core.Lost, Err: errors.New("connection reset")}}
	away := &core.Error{Kind: core.Transient, Err: errors.New("no route to host")}
	other := errors.New("the disk is full")
	for name, c := range map[string]struct {
		errs   func(try int) error
		tries  int
		breaks int
		err    error
	}{
		"none":                       {func(int) error { return nil }, 1, 0, nil},
		"once":                       {func(try int) error { return []error{lost, nil}[try] }, 2, 1, nil},
		"once, and away for a while": {func(try int) error { return []error{lost, away, away, nil}[try] }, 4, 1, nil},
		"away from the beginning":    {func(int) error { return away }, 1, 0, away},
		"another error":              {func(int) error { return other }, 1, 0, other},
		"for good":                   {func(int) error { return lost }, 7, 1, lost}, // after 2, 6, 14, 30, 46 and 62 s
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, breaks := 0, 0
				s := &Site{Name: "a", Breaks: &Breaks{}, Record: func(_ context.Context, f event.Fields) {
					if lost, is := f.(event.ConnectionLost); !is || lost.Site != "a" {
						t.Errorf("got %+v", f)
					}
					breaks++
				}}
				begun := time.Now()
				err := s.Retry(t.Context(), func() error { tries++; return c.errs(tries - 1) })
				if !errors.Is(err, c.err) || tries != c.tries || breaks != c.breaks {
					t.Errorf("%d tries, %d breaks, %v after %v; want %d, %d, %v", tries, breaks, err, time.Since(begun), c.tries, c.breaks, c.err)
				}
			})
		})
	}
}

// TestOneBreakIsRecordedOnce, of all that travelled over the connection.
func TestOneBreakIsRecordedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		var b Breaks
		for range 3 {
			b.note(func() { n++ })
		}
		time.Sleep(firstRest)
		b.note(func() { n++ })
		if n != 2 {
			t.Errorf("recorded %d times, want 2", n)
		}
	})
}
