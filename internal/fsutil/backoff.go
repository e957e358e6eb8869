package fsutil

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Backoff makes the pauses between tries: the first, then each twice as long as the one
// before, up to the longest. Each is shortened by up to a fifth at random, so that many
// who wait for the same thing do not all come back at once.
type Backoff struct {
	First, Longest time.Duration
	next           time.Duration
}

// Wait pauses before the next try. The error is the cause of ctx, where that ended.
func (b *Backoff) Wait(ctx context.Context) error { return core.Sleep(ctx, b.Next()) }

// Next returns the length of the next pause, for a caller which waits for more than its end.
func (b *Backoff) Next() time.Duration {
	if b.next == 0 {
		b.next = b.First
	}
	pause := b.next - rand.N(b.next/5+1)
	b.next = min(2*b.next, b.Longest)
	return pause
}

// Reset makes the next pause the first again.
func (b *Backoff) Reset() { b.next = 0 }
