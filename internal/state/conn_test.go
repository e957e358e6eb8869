package state

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
)

// TestWhatHasBegunEnds: callers that give up at any moment cost nobody the
// connection, and what was open before virtual time began can be used in it.
func TestWhatHasBegunEnds(t *testing.T) {
	s := open(t, t.TempDir())
	r := put(t, s, Run{Name: "x", State: Queued})
	synctest.Test(t, func(t *testing.T) {
		for i := range 2000 {
			var all sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			given := func(err error) {
				if err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
			all.Go(func() { given(s.PutRun(ctx, r)) })
			all.Go(func() { given(s.PutAttempt(ctx, Attempt{Run: r.ID, N: 1}, true)) })
			all.Go(func() { _, err := s.Attempts(ctx, r.ID); given(err) })
			all.Go(func() {
				if _, err := s.Run(t.Context(), r.ID); err != nil {
					t.Error(err)
				}
			})
			for range i % 20 { // so that it comes while one of them is at work
				runtime.Gosched()
			}
			cancel()
			all.Wait()
		}
	})
	if n := s.db.db.Stats().OpenConnections; n != 1 {
		t.Errorf("%d connections are open, want the first", n)
	}
}
