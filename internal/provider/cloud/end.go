package cloud

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// firstEnd returns the machine whose end says most of why those of a lease are gone: one that the cloud has taken back,
// or the first that does not run any more.
func firstEnd(machines []Machine) (m Machine, is bool) {
	over := func(m Machine) bool { return m.State > Failed }
	at := slices.IndexFunc(machines, func(m Machine) bool { return over(m) && m.End == core.HostsReclaimed })
	if at < 0 {
		at = slices.IndexFunc(machines, over)
	}
	if at < 0 {
		return Machine{}, false
	}
	return machines[at], true
}

// status returns the status of a lease whose machine m does not run any more.
func (m Machine) status() driver.Status {
	state := "is " + m.State.String()
	switch m.End {
	case core.HostsReclaimed:
		state = "was reclaimed by the site"
	case core.HostsPoweredOff:
		state = "was powered off from within"
	case core.HostsEnded:
		state = "was ended by a call of its account"
	}
	return driver.Status{Reason: fmt.Sprintf("machine %s %s%s", m.ID, state, ended([]Machine{m})), End: m.End}
}

// why returns the status of a lease whose machine m does not run any more. That its reservation is over explains more
// than what became of the machine.
func (p *provider) why(ctx context.Context, r *record, m Machine) driver.Status {
	m = p.withEnd(ctx, m)
	if r.Reservation != "" {
		if granted, err := p.reserved(ctx, r.Reservation); err == nil && granted.Over != "" {
			m.End, m.Reason = cmp.Or(granted.Ended, m.End), granted.Over
		}
	}
	return m.status()
}

// withEnd returns a machine with why it does not run any more. Where the cloud does not answer, that is not known.
func (p *provider) withEnd(ctx context.Context, m Machine) Machine {
	if m.End != "" {
		return m
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if end, err := p.api.WhyEnded(ctx, m.ID); err == nil {
		m.End = end
	}
	return m
}

// unlisted is a machine that the cloud does not list any more.
func unlisted(id string) Machine {
	return Machine{ID: id, State: Ended, Reason: "it is not listed any more"}
}

// released returns the status of a lease whose record is gone. Another process may have removed it only because the
// machines had ended before: the cloud lists why for some time.
func (l *lease) released(ctx context.Context) driver.Status {
	none := driver.Status{Reason: "the machines were released"}
	if l.r.Token == "" {
		return none
	}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	machines, err := l.p.api.Launched(ctx, l.r.Token)
	if err != nil {
		return none
	}
	for _, id := range l.r.Machines {
		if !lists(machines, id) {
			machines = append(machines, unlisted(id))
		}
	}
	for i, m := range machines {
		machines[i] = l.p.withEnd(ctx, m)
	}
	for _, end := range []core.HostsEnd{core.HostsReclaimed, core.HostsPoweredOff} { // a release is a call, too
		if at := slices.IndexFunc(machines, func(m Machine) bool { return m.State > Failed && m.End == end }); at >= 0 {
			return machines[at].status()
		}
	}
	return none
}
