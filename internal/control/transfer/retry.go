package transfer

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state/event"
)

// How broken connections are dealt with during a transfer: for how long there may be none
// before that counts as the site's failure, for how long one must have held to be a new
// beginning, how often it may break, and the first and the longest pause between tries.
const (
	firstRest   = 2 * time.Second
	longestRest = 16 * time.Second
	retryLimit  = time.Minute
	held        = 5 * time.Second
	mostBreaks  = 50
)

// Retry makes a transfer to the site or from it, again where the connection breaks. Little
// of what has arrived by then travels once more.
func (s *Site) Retry(ctx context.Context, transfer func() error) error {
	var since time.Time // when the connection broke, or zero
	pause := fsutil.Backoff{First: firstRest, Longest: longestRest, Exact: true}
	for breaks := 0; ; {
		begun := time.Now()
		err := transfer()
		broke := isBroken(err)
		if err == nil || ctx.Err() != nil || !broke && (since.IsZero() || !core.IsKind(err, core.Transient)) {
			return err
		}
		if since.IsZero() || broke && time.Since(begun) >= held {
			since = time.Now()
			pause.Reset()
			if breaks++; breaks > mostBreaks {
				return err
			}
			s.Breaks.note(func() {
				s.Record(ctx, event.ConnectionLost{Site: s.Name, Cause: event.CauseOf(err), Limit: event.Seconds(retryLimit)})
			})
		}
		if time.Since(since) >= retryLimit {
			return err
		}
		if err := pause.Wait(ctx); err != nil {
			return err
		}
	}
}

// isBroken reports whether an error is, or comes from, a connection that was there and
// ended.
func isBroken(err error) bool {
	for e, ok := errors.AsType[*core.Error](err); ok; e, ok = errors.AsType[*core.Error](e.Err) {
		if e.Kind == core.Lost {
			return true
		}
	}
	return false
}
