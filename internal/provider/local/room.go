package local

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/reservation"
)

// reserved is what a request takes of this machine. A job that does not say how many cores it
// needs has one for each node.
func (p *provider) reserved(r driver.Request) reservation.Reservation {
	own := reservation.New(r.Owner.Run, int64(r.Nodes)*r.Memory)
	own.Cores, own.Site = r.Nodes*max(1, r.SlotsPerNode), p.base
	return own
}

// room returns an error of kind Busy where runs of this user use what another one needs.
// Cores are those of the site, of which emulated hosts have as many as they say, and memory
// is this machine's.
func (p *provider) room(own reservation.Reservation, others []reservation.Reservation) error {
	cores, used := map[string]int{}, 0
	for _, o := range others {
		if o.Site == own.Site && o.Run != own.Run {
			cores[o.Run] += o.Cores
			used += o.Cores
		}
	}
	busy := func(format string, a ...any) error {
		return &core.Error{
			Kind: core.Busy, Op: "use site", Object: p.s.Name, Err: fmt.Errorf(format, a...),
			Remedy: "It starts when they are over. `oversubscribe: true` at the site has it start at once.",
		}
	}
	here := namesOf(slices.Collect(maps.Keys(cores)))
	if p.s.Runs > 0 && len(cores) >= p.s.Runs {
		return busy("%s of yours there, and its `runs` allows %d", here, p.s.Runs)
	}
	if p.s.Oversubscribe {
		return nil
	}
	if all := p.hosts() * p.s.Slots; used > 0 && used+own.Cores > all {
		return busy("%s of yours there with %d of its %d cores, and the job needs %d", here, used, all, own.Cores)
	}
	if all := core.HostMemory(); own.Bytes > 0 && all > 0 {
		if reserved, runs := reservation.Reserved(others, own.Run, false); reserved+own.Bytes > all && len(runs) > 0 {
			return busy("%s of yours with %d of %d MiB of memory reserved, and the job needs %d MiB", namesOf(runs), reserved>>20, all>>20, own.Bytes>>20)
		}
	}
	return nil
}

// waits is what a run that waits for room is to others.
func (p *provider) waits(own reservation.Reservation, r driver.Request) reservation.Waiting {
	return reservation.Waiting{Run: own.Run, Site: own.Site, Cores: own.Cores, Bytes: own.Bytes, Submitted: r.Submitted}
}

// turn returns an error of kind Busy where there is no room, or where a run that was
// submitted earlier waits and would not fit any more. So a job that needs much starts
// although smaller ones follow it.
func (p *provider) turn(own reservation.Reservation, r driver.Request, others []reservation.Reservation) error {
	if err := p.room(own, others); err != nil {
		return err
	}
	before := p.s.Ledger.Before(p.waits(own, r))
	if len(before) == 0 {
		return nil
	}
	runs := map[string]bool{}
	for _, w := range before {
		others = append(others, reservation.Reservation{Run: w.Run, Site: w.Site, Cores: w.Cores, Bytes: w.Bytes})
		runs[w.Run] = true
	}
	err := p.room(own, others)
	if busy, is := errors.AsType[*core.Error](err); is {
		busy.Err = fmt.Errorf("%s came first, and there is no room besides", listed(slices.Collect(maps.Keys(runs))))
	}
	return err
}

// keepPlace notes that a run waits, unless no place is to be kept for it.
func (p *provider) keepPlace(r driver.Request) {
	if p.s.Ledger != "" && !r.Submitted.IsZero() {
		core.BestEffort(p.s.Ledger.Wait(p.waits(p.reserved(r), r))) // it waits all the same
	}
}

// namedRuns is how many runs are named at most.
const namedRuns = 4

func namesOf(runs []string) string {
	if len(runs) == 1 {
		return listed(runs) + " is one"
	}
	return listed(runs) + " are"
}

func listed(runs []string) string {
	slices.Sort(runs)
	text := strings.Join(runs[:min(len(runs), namedRuns)], ", ")
	if more := len(runs) - namedRuns; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if len(runs) == 1 {
		return "run " + text
	}
	return "runs " + text
}

// reserve enters a lease into the ledger, unless runs of this user leave no room for it.
// Where there can be no ledger, nothing is counted.
func (p *provider) reserve(l *lease, r driver.Request) error {
	if p.s.Ledger == "" {
		return nil
	}
	own := p.reserved(r)
	name, _, err := p.s.Ledger.Share(own, func(others []reservation.Reservation) error { return p.turn(own, r, others) })
	if core.IsKind(err, core.Busy) {
		p.keepPlace(r)
		return err
	}
	p.s.Ledger.Leave(p.waits(own, r))
	if err == nil && name != "" {
		l.details.Reserved, l.details.Reservation = name, &own
	}
	return err
}

// hold has this process hold what the lease has reserved. Where all that held it have ended,
// force reserves it again, whatever others have by now: the lease is older.
func (l *lease) hold(force bool) error {
	if l.ledger == "" || l.details.Reserved == "" || l.ledger.Join(l.details.Reserved) || !force || l.details.Reservation == nil {
		return nil
	}
	name, why, err := l.ledger.Share(*l.details.Reservation, func([]reservation.Reservation) error { return nil })
	if why != nil || err != nil {
		return nil // nothing is counted then
	}
	l.details.Reserved = name
	return writeDetails(l.dir, l.details)
}

// drop ends what the lease has reserved.
func (l *lease) drop() {
	if l.ledger != "" && l.details.Reserved != "" {
		l.ledger.Drop(l.details.Reserved)
	}
	l.details.Reserved, l.details.Reservation = "", nil
}

// Queue implements driver.Provider: hosts are there at once, unless other runs use them.
func (p *provider) Queue() driver.SiteQueue {
	if p.s.Ledger == "" {
		return nil
	}
	return p
}

// Forecast implements driver.SiteQueue.
func (p *provider) Forecast(_ context.Context, r driver.Request) (driver.Waiting, error) {
	if err := p.fits(r); err != nil {
		return driver.Waiting{}, err
	}
	if err := p.lacks(r); err != nil {
		return driver.Waiting{}, &core.Error{Kind: core.KindOf(err), Op: "use site", Object: p.s.Name, Err: err, Remedy: core.Remedy(err)}
	}
	others, err := p.s.Ledger.Reservations()
	if err == nil {
		err = p.turn(p.reserved(r), r, others)
	}
	if core.IsKind(err, core.Busy) || r.KeepPlace {
		p.keepPlace(r)
	}
	if busy, is := errors.AsType[*core.Error](err); is && busy.Kind == core.Busy {
		return driver.Waiting{Reason: busy.Err.Error()}, nil
	}
	return driver.Waiting{Expected: time.Now()}, nil
}

// lacks returns an error where this host lacks devices of a request.
func (p *provider) lacks(r driver.Request) error {
	if r.GPUs != 0 && p.s.GPUs != nil {
		if err := p.s.GPUs(r.GPUs); err != nil {
			return err
		}
	}
	if r.RDMA && p.s.RDMA != nil {
		return p.s.RDMA(r.PCI)
	}
	return nil
}
