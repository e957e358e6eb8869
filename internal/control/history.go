package control

import (
	"context"
	"slices"
	"time"

	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state/event"
)

// record adds an event to the run's history, and prints it.
func (d *drive) record(ctx context.Context, f event.Fields) { d.recordOf(ctx, 0, f) }

// event adds an event of the attempt to the run's history, and prints it.
func (a *attempt) event(ctx context.Context, f event.Fields) { a.recordOf(ctx, a.rec.N, f) }

func (d *drive) recordOf(ctx context.Context, attempt int, f event.Fields) {
	e := event.Event{Run: d.run.ID, Time: time.Now(), Attempt: attempt, Fields: f}
	d.c.say(protocol.PhaseQueue, report.Sentence(e))
	if _, err := d.c.Store.AddEvent(context.WithoutCancel(ctx), e); err != nil {
		d.c.Log.Warn("the run's history could not be written", "err", err)
	}
}

// recordOnce prints an event, and records it unless one with the same key was recorded
// since a site last took the run: a run that waits for days is asked for hundreds of times,
// with mostly the same answers.
func (d *drive) recordOnce(ctx context.Context, key string, f event.Fields) {
	if d.told[key] {
		d.c.say(protocol.PhaseQueue, report.Sentence(event.Event{Run: d.run.ID, Fields: f}))
		return
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[key] = true
	d.record(ctx, f)
}

// recordSeen is record for what is found again and again.
func (d *drive) recordSeen(ctx context.Context, f event.Fields) {
	if _, known := d.noted.LoadOrStore(event.Key(f), true); !known {
		d.record(ctx, f)
	}
}

// recordRoute records the route of a transfer, unless it is that of the last transfer
// between the two.
func (d *drive) recordRoute(ctx context.Context, r event.Route) {
	routes, _ := d.c.Store.Events(ctx, d.run.ID, event.KindRoute) // else it is recorded twice
	for _, e := range slices.Backward(routes) {
		if last, is := e.Fields.(event.Route); is && last.From == r.From && last.To == r.To {
			if last.Direct == r.Direct {
				return
			}
			break
		}
	}
	d.record(ctx, r)
}

// recordLast is record, without a line where the last event is the same already.
func (d *drive) recordLast(ctx context.Context, f event.Fields) {
	last, is, err := d.c.Store.LastEvent(ctx, d.run.ID)
	if err == nil && is && event.Key(last.Fields) == event.Key(f) {
		return
	}
	d.record(ctx, f)
}
