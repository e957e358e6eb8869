package sshlink

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// TestALoginThatFails is one for all who have asked for it meanwhile, and none for who
// asks later.
func TestALoginThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, tries := &Logins{}, atomic.Int32{}
		refused := &core.Error{Kind: core.Transient, Err: errors.New("refused")}
		fails := func(context.Context) (*Link, error) {
			tries.Add(1)
			time.Sleep(time.Second)
			return nil, refused
		}
		all := func(n int) {
			var wg sync.WaitGroup
			for range n {
				wg.Go(func() {
					if l, err := g.join(t.Context(), "h", fails); l != nil || !errors.Is(err, refused) {
						t.Errorf("%v, %v", l, err)
					}
				})
			}
			wg.Wait()
		}
		if all(1000); tries.Load() != 1 {
			t.Errorf("%d logins at a time", tries.Load())
		}
		if all(10); tries.Load() != 2 {
			t.Errorf("%d logins, one after the other", tries.Load())
		}
	})
}

// TestALoginWhoseUserLeaves says nothing to the others of the host.
func TestALoginWhoseUserLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &Logins{}
		refused := errors.New("refused")
		leaving, leave := context.WithCancel(t.Context())
		first := make(chan error)
		go func() {
			_, err := g.join(leaving, "h", func(ctx context.Context) (*Link, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			})
			first <- err
		}()
		second := make(chan error)
		synctest.Wait()
		go func() {
			_, err := g.join(t.Context(), "h", func(context.Context) (*Link, error) { return nil, refused })
			second <- err
		}()
		synctest.Wait()
		leave()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("the first: %v", err)
		}
		if err := <-second; !errors.Is(err, refused) {
			t.Errorf("the second: %v", err)
		}
	})
}
