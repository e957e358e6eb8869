package remote

import (
	"context"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Rate limits bytes per second over all who use it. The zero value does not.
type Rate struct {
	PerSecond int64

	mu   sync.Mutex
	next time.Time // when what was asked for so far will have passed
}

// Wait waits until n bytes more may pass.
func (r *Rate) Wait(ctx context.Context, n int) error {
	if r == nil || r.PerSecond <= 0 || n <= 0 {
		return ctx.Err()
	}
	r.mu.Lock()
	now := time.Now()
	if r.next.Before(now) {
		r.next = now
	}
	pause := r.next.Sub(now)
	r.next = r.next.Add(time.Duration(float64(n) / float64(r.PerSecond) * float64(time.Second)))
	r.mu.Unlock()
	return core.Sleep(ctx, pause)
}
