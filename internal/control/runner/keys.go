package runner

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
)

// renewKeys sends the user's credentials for the bucket of a burst buffer, as they are now, to a head: at once, as others
// may have sent those that it has, and again before they expire, until ctx ends.
func (w *headWatch) renewKeys(ctx context.Context, head headlink.Head) {
	r := w.rec.of
	if !r.sub.Job.SendsKeys() || r.c.BucketKeys == nil {
		return
	}
	for warned := false; ; {
		keys, err := sendKeys(ctx, r, head)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !warned {
			r.c.Log.Warn("credentials for the burst buffer are not renewed", "run", r.run.ID, "err", err)
		}
		warned = err != nil
		if core.IsKind(err, core.Unsupported) || err == nil && keys.Expires.IsZero() {
			return
		}
		pause := retrySecrets
		if err == nil {
			pause = max(pause, renewAfter(time.Until(keys.Expires)))
		}
		if core.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// renewAfter is when credentials are read again that are valid for so long: well before, as the server that issues them may
// be away for a while.
func renewAfter(valid time.Duration) time.Duration { return valid * 3 / 4 }

func sendKeys(ctx context.Context, r *controlled, head headlink.Head) (core.BucketKeys, error) {
	most, cancel := context.WithTimeout(ctx, mostKeys)
	defer cancel()
	keys, err := r.c.BucketKeys(most, r.sub.Job.Volume.Remote)
	if err != nil {
		return keys, err
	}
	return keys, head.UseKeys(ctx, keys)
}
