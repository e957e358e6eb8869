package runner

import (
	"context"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state/event"
)

// record adds an event to the run's history, and prints it.
func (r *controlled) record(ctx context.Context, f event.Fields) { r.recordOf(ctx, 0, f) }

func (r *controlled) recordOf(ctx context.Context, attempt int, f event.Fields) {
	r.c.Record(ctx, r.run.ID, attempt, f)
}

// Record adds an event to the history of a run, and prints it. attempt is 0 for one of none.
func (c *Runner) Record(ctx context.Context, run string, attempt int, f event.Fields) {
	e := event.Event{Run: run, Time: time.Now(), Attempt: attempt, Fields: f}
	c.ReportText(core.PhaseQueue, report.Sentence(e))
	if _, err := c.Store.AddEvent(context.WithoutCancel(ctx), e); err != nil {
		c.Log.Warn("the run's history could not be written", "err", err)
	}
}

// recordOnce prints an event whose text is new, and records it unless one with the same key
// was recorded since a site last took the run: a run that waits for days is asked for
// hundreds of times, with mostly the same answers.
func (d *drive) recordOnce(ctx context.Context, key string, f event.Fields) {
	text := report.Sentence(event.Event{Run: d.run.ID, Fields: f})
	last, recorded := d.printed[key]
	if d.printed == nil {
		d.printed = map[string]string{}
	}
	d.printed[key] = text
	switch {
	case !recorded:
		d.record(ctx, f)
	case last != text:
		d.c.ReportText(core.PhaseQueue, text)
	}
}

// recordSeen is record for what is found again and again.
func (r *controlled) recordSeen(ctx context.Context, f event.Fields) {
	if _, known := r.noted.LoadOrStore(event.Key(f), true); !known {
		r.record(ctx, f)
	}
}

// recordRoute records the route of a transfer, unless it is that of the last transfer
// between the two.
func (r *controlled) recordRoute(ctx context.Context, route event.Route) {
	routes, _ := r.c.Store.History().Events(ctx, r.run.ID, event.KindRoute) // else it is recorded twice
	for _, e := range slices.Backward(routes) {
		if last, is := e.Fields.(event.Route); is && last.From == route.From && last.To == route.To {
			if last.Direct == route.Direct {
				return
			}
			break
		}
	}
	r.record(ctx, route)
}

// recordLast is record, without a line where the last event is the same already.
func (r *controlled) recordLast(ctx context.Context, f event.Fields) {
	last, is, err := r.c.Store.History().Last(ctx, r.run.ID)
	if err == nil && is && event.Key(last.Fields) == event.Key(f) {
		return
	}
	r.record(ctx, f)
}
