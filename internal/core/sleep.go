package core

import (
	"context"
	"time"
)

// Sleep pauses for d. The error is the cause of ctx, where that ended before.
func Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Pause is Sleep for a loop whose next step looks at ctx by itself.
func Pause(ctx context.Context, d time.Duration) { BestEffort(Sleep(ctx, d)) }
