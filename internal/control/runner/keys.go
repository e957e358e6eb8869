package runner

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/core"
)

// lookForKeys is how often temporary credentials are read again of which nobody knows when they expire.
const lookForKeys = 5 * time.Minute

// renewKeys sends the user's credentials for the bucket of a burst buffer, as they are now, to a head: at once, as others
// may have sent those that it has, and again before they expire, until ctx ends. Those that do not expire stay: what this
// machine has now may be another account's.
func (w *headWatch) renewKeys(ctx context.Context, head headlink.Head) {
	r := w.rec.of
	if !r.sub.Job.SendsKeys() || r.c.BucketKeys == nil {
		return
	}
	var sent *core.BucketKeys // nil: none by this connection
	for warned := false; ; {
		keys, err := sendKeys(ctx, r, head, sent)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !warned {
			r.c.Log.Warn("credentials for the burst buffer are not renewed", "run", r.run.ID, "err", err)
		}
		warned = err != nil
		if core.IsKind(err, core.Unsupported) || err == nil && (keys == nil || !keys.Temporary()) {
			return
		}
		pause := retrySecrets
		if err == nil {
			if sent = keys; keys.Expires.IsZero() {
				pause = lookForKeys
			} else {
				pause = max(pause, renewAfter(time.Until(keys.Expires)))
			}
		}
		if core.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// renewAfter is when credentials are read again that are valid for so long: well before, as the server that issues them may
// be away for a while.
func renewAfter(valid time.Duration) time.Duration { return valid * 3 / 4 }

// sendKeys returns what is found here now, and has sent it unless that was sent before; nil: what the head has does not
// expire.
func sendKeys(ctx context.Context, r *controlled, head headlink.Head, sent *core.BucketKeys) (*core.BucketKeys, error) {
	if sent == nil {
		if expire, err := head.KeysExpire(ctx); err != nil || !expire {
			return nil, err
		}
	}
	most, cancel := context.WithTimeout(ctx, mostKeys)
	defer cancel()
	keys, err := r.c.BucketKeys(most, r.sub.Job.Volume.Remote)
	if err != nil || sent != nil && sent.Same(keys) {
		return &keys, err
	}
	return &keys, head.UseKeys(ctx, keys)
}
