package cloud

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// queue is a lease that waits until its reservation starts.
type queue struct{ l *lease }

// Ready implements driver.LeaseQueue. Once the reservation has started, it rents the machines, and waits until they
// answer.
func (q queue) Ready(ctx context.Context) (driver.Waiting, error) {
	l := q.l
	lost := func(err error) (driver.Waiting, error) {
		return driver.Waiting{}, &core.Error{Kind: core.Lost, Op: "use reservation of", Object: l.owner.String(), Err: err, Remedy: core.Remedy(err)}
	}
	unlock, err := l.p.lock(ctx, l.dir, false)
	if core.IsKind(err, core.NotFound) {
		return lost(errors.New("it was released"))
	}
	if err != nil {
		return driver.Waiting{}, err
	}
	defer unlock()
	r, err := read(l.dir, l.owner)
	switch {
	case err != nil:
		return driver.Waiting{}, err
	case r == nil:
		return lost(errors.New("its record is gone"))
	case r.ready():
		l.use(r, nil)
		return driver.Waiting{Ready: true}, nil
	}
	granted, err := l.p.api.Reservations().Reserved(ctx, r.Reservation)
	switch {
	case core.IsKind(err, core.NotFound):
		return lost(fmt.Errorf("reservation %s is gone", r.Reservation))
	case err != nil:
		return driver.Waiting{}, err
	case granted.Over != "":
		return lost(errors.New(granted.Over))
	case !granted.Active:
		return driver.Waiting{Reason: waitsFor(granted), Expected: granted.Start}, nil
	}
	booted, err := l.p.launchAndBoot(ctx, l.dir, r, r.Request)
	if err == nil {
		l.use(r, booted.inner)
		return driver.Waiting{Ready: true}, nil
	}
	if _, silent := errors.AsType[silentError](err); ctx.Err() != nil || core.IsKind(err, core.Transient) && !silent {
		return driver.Waiting{}, err // the next call continues
	}
	return lost(err)
}

// waitsFor says what a reservation waits for.
func waitsFor(r Reservation) string {
	if time.Until(r.Start) < time.Minute {
		return "reservation " + r.ID + " is about to start"
	}
	return fmt.Sprintf("reservation %s starts at %s; this machine has to be on then, and bee to run", r.ID, r.Start.UTC().Format("2006-01-02 15:04 MST"))
}

// use has a lease use what its record says now, and a connection to the hosts, if there is one.
func (l *lease) use(r *record, inner driver.Lease) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.r = r
	if inner != nil {
		l.inner = inner
	}
}

// over returns why the reservation of a lease is over, for messages, or "".
func (l *lease) over(ctx context.Context) string {
	if l.r.Reservation == "" {
		return ""
	}
	granted, err := l.p.api.Reservations().Reserved(ctx, l.r.Reservation)
	switch {
	case core.IsKind(err, core.NotFound):
		return " (reservation " + l.r.Reservation + " is gone)"
	case err != nil || granted.Over == "":
		return ""
	}
	return " (" + granted.Over + ")"
}
