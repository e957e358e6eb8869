package ssh

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// ofHost is what a request of several hosts asks of each.
func ofHost(r driver.Request) driver.Request {
	r.Nodes, r.Binary = 1, ""
	return r
}

// forecast asks all hosts of a rack whether other runs of the user leave room on them.
func (p *provider) forecast(ctx context.Context, r driver.Request) (driver.Waiting, error) {
	printed, errs := make([]driver.Waiting, len(p.s.Hosts)), make([]error, len(p.s.Hosts))
	p.each(len(p.s.Hosts), func(i int) { printed[i], errs[i] = p.forecastOf(ctx, p.s.Hosts[i], ofHost(r)) })
	free, full := 0, driver.Waiting{}
	for i, w := range printed {
		switch {
		case errs[i] != nil:
		case w.Reason == "":
			free++
		case full.Reason == "":
			full = driver.Waiting{Reason: sshlink.NameOf(p.s.Hosts[i]) + ": " + w.Reason}
		}
	}
	if free < r.Nodes && full.Reason != "" {
		p.keepPlaces(ctx, r, printed)
		return full, nil
	}
	return driver.Waiting{Expected: time.Now()}, nil // what else is wrong is found by who takes them
}

// forecastOf asks one host.
func (p *provider) forecastOf(ctx context.Context, host string, r driver.Request) (driver.Waiting, error) {
	l, err := p.ssh.Connect(ctx, host)
	if err != nil {
		return driver.Waiting{}, err
	}
	defer p.ssh.Keep(l)
	c := p.call(host)
	c.Request = r
	found, err := rpc.Call(ctx, l.Peer, hostcall.CallForecast, c)
	return driver.Waiting(found), err
}

// keepPlaces keeps the place of a run of several hosts on those that have room, too: else
// runs that came later would always use them before the others are free.
func (p *provider) keepPlaces(ctx context.Context, r driver.Request, printed []driver.Waiting) {
	if r.Nodes < 2 || r.Submitted.IsZero() {
		return
	}
	r = ofHost(r)
	r.KeepPlace = true
	p.each(len(printed), func(i int) {
		if printed[i].Reason == "" {
			core.BestEffort(p.forecastOf(ctx, p.s.Hosts[i], r)) // a host that does not answer has no place to keep
		}
	})
}

// take takes as many hosts as are wanted, of those to which there are links: the first that
// have room. Links that the lease does not need are kept. With an error, the lease is what
// there is to release.
func (p *provider) take(ctx context.Context, r driver.Request, got []*sshlink.Link, errs []error) (*lease, error) {
	var there []int
	for i, k := range got {
		if k != nil {
			there = append(there, i)
		}
	}
	grants, busy := map[int]hostcall.Granted{}, make([]error, len(got))
	var failed error
	for tried := 0; len(there) >= r.Nodes && len(grants) < r.Nodes && tried < len(there) && failed == nil; {
		some := there[tried:min(len(there), tried+r.Nodes-len(grants))]
		tried += len(some)
		answers, refusals := make([]hostcall.Granted, len(some)), make([]error, len(some))
		p.each(len(some), func(n int) { answers[n], refusals[n] = p.takeHost(ctx, p.s.Hosts[some[n]], got[some[n]], r) })
		for n, i := range some {
			switch err := refusals[n]; {
			case answers[n].Handle.Driver != "": // also what is to be released again
				grants[i] = answers[n]
				failed = cmp.Or(failed, err)
			case core.IsKind(err, core.Busy):
				busy[i] = err
			case err != nil:
				failed = cmp.Or[error](failed, &core.Error{Kind: core.KindOf(err), Op: "use host", Object: p.s.Hosts[i], Err: err, Remedy: core.Remedy(err)})
			}
		}
	}
	l := &lease{p: p, owner: r.Owner}
	for _, i := range there {
		g, mine := grants[i]
		if !mine {
			p.ssh.Keep(got[i])
			continue
		}
		l.links, l.h.Hosts, l.h.Leases = append(l.links, got[i]), append(l.h.Hosts, p.s.Hosts[i]), append(l.h.Leases, g.Handle)
		h := core.Host{}
		if len(g.Hosts) > 0 {
			h = g.Hosts[0]
		}
		h.Index, h.Name, h.Addrs = len(l.h.Known), sshlink.NameOf(p.s.Hosts[i]), nil
		l.h.Known = append(l.h.Known, h)
	}
	if failed != nil || len(grants) == r.Nodes {
		return l, failed
	}
	for i, err := range busy {
		errs[i] = cmp.Or(errs[i], err)
	}
	e := &core.Error{
		Kind: kindOfAll(errs), Op: "use site", Object: p.s.Name, Remedy: core.Remedy(firstOf(errs)),
		Err: fmt.Errorf("only %d of the %d hosts that the job wants can be used: %w", len(grants), r.Nodes, together(p.s.Hosts, errs)),
	}
	if slices.ContainsFunc(busy, func(err error) bool { return err != nil }) {
		e.Kind = core.Busy
	}
	return l, e
}

// takeHost takes one host. A grant with an error is to be released.
func (p *provider) takeHost(ctx context.Context, host string, k *sshlink.Link, r driver.Request) (hostcall.Granted, error) {
	c := p.call(host)
	c.Request = ofHost(r)
	g, err := rpc.Call(ctx, k.Peer, hostcall.CallAcquire, c)
	if err != nil {
		return hostcall.Granted{}, err
	}
	if g.Handle.Driver == "" {
		return hostcall.Granted{}, &core.Error{Kind: core.Lost, Op: "use host", Object: host, Err: errors.New("the handle of its lease names no driver"), Remedy: core.RemedyVersions}
	}
	g.Waiting.Ready = true
	return g, g.Matches(r.Owner, 1, nil, time.Time{})
}
