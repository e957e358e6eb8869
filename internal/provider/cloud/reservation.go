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
	billed := time.Time{}
	lost := func(err error) (driver.Waiting, error) {
		return driver.Waiting{Billed: billed}, &core.Error{Kind: core.Lost, Op: "use reservation of", Object: l.owner.String(), Err: err, Remedy: core.Remedy(err)}
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
		return driver.Waiting{Ready: true, Billed: r.Begins}, nil
	}
	granted, err := l.p.reserved(ctx, r.Reservation)
	switch {
	case err != nil:
		return driver.Waiting{}, err
	case granted.Over != "":
		return lost(errors.New(granted.Over))
	case !granted.Active:
		return driver.Waiting{Reason: waitsFor(granted), Expected: granted.Start}, nil
	}
	billed = granted.Start
	if err := q.lengthen(ctx, r, granted); err != nil {
		if core.IsKind(err, core.Lost) {
			return lost(err)
		}
		return driver.Waiting{Billed: billed}, err
	}
	booted, err := l.p.launchAndBoot(ctx, l.dir, r, r.Request)
	if err == nil {
		l.use(r, booted.inner)
		return driver.Waiting{Ready: true, Billed: billed}, nil
	}
	if _, silent := errors.AsType[silentError](err); ctx.Err() != nil || core.IsKind(err, core.Transient) && !silent {
		return driver.Waiting{Billed: billed}, err // the next call continues
	}
	return lost(err)
}

// reserved returns a reservation. One that is gone is over.
func (p *provider) reserved(ctx context.Context, id string) (Reservation, error) {
	from := p.api.Reservations()
	if from == nil {
		return Reservation{}, &core.Error{
			Kind: core.Permanent, Op: "look for reservation", Object: id, Err: fmt.Errorf("site %s reserves no machines any more", p.s.Name),
			Remedy: "Write `lease:` at the site as it was when the run began, or end the run with `bee stop`.",
		}
	}
	granted, err := from.Reserved(ctx, id)
	if core.IsKind(err, core.NotFound) {
		return Reservation{ID: id, Over: "reservation " + id + " is gone", Ended: core.HostsEnded}, nil
	}
	return granted, err
}

// lateStart is how late machines may be rented in a reservation that is not made longer for it.
const lateStart = 2 * time.Minute

// lengthen has a reservation last for a whole slot from now on, where its machines are rented late or its end has been
// changed. One that can be no longer grants what is left of it. The machines have to know when that is.
func (q queue) lengthen(ctx context.Context, r *record, granted Reservation) error {
	p, dir := q.l.p, q.l.dir
	if r.Asked { // they do, if there are some
		return nil
	}
	if end := time.Now().Add(p.s.Life()); !p.s.Limited && granted.End.Before(end.Add(-lateStart)) {
		longer, err := p.api.Reservations().Extend(ctx, r.Reservation, end)
		if err != nil && ctx.Err() == nil { // it may be longer, and the answer lost
			longer, err = p.reserved(ctx, r.Reservation)
		}
		switch {
		case err == nil && longer.Over == "":
			granted = longer
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
	if !granted.End.Add(-p.s.Keep).After(time.Now()) {
		return &core.Error{
			Kind: core.Lost, Op: "use reservation", Object: granted.ID, Err: fmt.Errorf("it ends at %s, which leaves no time to compute", granted.End.UTC().Format("2006-01-02 15:04 MST")),
			Remedy: "Have `bee` run when reservations start, best by `bee supervise --install`.",
		}
	}
	if granted.End.Equal(r.Expires) {
		return nil
	}
	host, login, err := makeKeys(ctx, dir) // no machine has those of before
	if err != nil {
		return err
	}
	r.Expires = granted.End
	if r.Script, err = p.script(r, host, login, r.Expires); err != nil {
		return err
	}
	return r.write(dir)
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
