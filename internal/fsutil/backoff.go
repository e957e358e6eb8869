package fsutil

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Backoff makes the pauses between tries: the first, then each twice as long as the one
// before, up to the longest. Each is shortened by up to a fifth at random, so that many
// who wait for the same thing do not all come back at once. First and Longest may change
// from one pause to the next.
type Backoff struct {
	First, Longest time.Duration
	// Exact is set where no pause is shortened: what is simulated is played again alike.
	Exact bool
	last  time.Duration
}

// Wait pauses before the next try. The error is the cause of ctx, where that ended.
func (b *Backoff) Wait(ctx context.Context) error { return core.Sleep(ctx, b.Next()) }

// Next returns the length of the next pause, for a caller which waits for more than its end.
func (b *Backoff) Next() time.Duration {
	b.last = min(max(2*b.last, b.First), b.Longest)
	if b.Exact {
		return b.last
	}
	return b.last - rand.N(b.last/5+1)
}

// Waited reports whether there was a pause since the last Reset.
func (b *Backoff) Waited() bool { return b.last > 0 }

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.last = 0 }
