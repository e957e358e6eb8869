package control

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state/event"
)

// How lines that break are dealt with while something travels to or from a site: for how
// long there may be none before it counts as the site's failure, for how long one must
// have held to be a new beginning, how often it may break, and the first pause and the
// longest before it is tried again.
const (
	lineRest     = 2 * time.Second
	lineLongRest = 16 * time.Second
	linePatience = time.Minute
	lineHeld     = 5 * time.Second
	lineBreaks   = 50
)

// insist brings something to the site or from there, again where the line breaks
// meanwhile. Little of what has arrived by then travels once more.
func (a *attempt) insist(ctx context.Context, bring func() error) error {
	var since time.Time // when the line broke, or zero
	for pause, breaks := lineRest, 0; ; pause = min(2*pause, lineLongRest) {
		begun := time.Now()
		err := bring()
		broke := lineBroke(err)
		if err == nil || ctx.Err() != nil || !broke && (since.IsZero() || !core.IsKind(err, core.Transient)) {
			return err
		}
		if since.IsZero() || broke && time.Since(begun) >= lineHeld {
			since, pause = time.Now(), lineRest
			if breaks++; breaks > lineBreaks {
				return err
			}
			a.sayBroke(ctx, event.ConnectionLost{Site: a.site.Name, Cause: event.CauseOf(err), Patience: event.Seconds(linePatience)})
		}
		if time.Since(since) >= linePatience {
			return err
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// sayBroke notes that the line broke, once for all that travelled over it.
func (a *attempt) sayBroke(ctx context.Context, lost event.ConnectionLost) {
	a.telling.Lock()
	defer a.telling.Unlock()
	if time.Since(a.broke) >= lineRest {
		a.event(ctx, lost)
		a.broke = time.Now()
	}
}

// lineBroke tells whether an error is, or comes from, a connection that was there and
// ended.
func lineBroke(err error) bool {
	for e, ok := errors.AsType[*core.Error](err); ok; e, ok = errors.AsType[*core.Error](e.Err) {
		if e.Kind == core.Lost {
			return true
		}
	}
	return false
}
