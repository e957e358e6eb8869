package ssh

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/provider/ssh/hostcall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/sshlink"
)

// adopters has the agents of the hosts record who controls a run. That of the first one
// decides. A sweep may find the lease on others alone, so these have it on record, too.
type adopters struct{ l *lease }

// Adopt implements driver.Adopters.
func (a adopters) Adopt(ctx context.Context, by driver.Adopter, instead string) (driver.Adopter, error) {
	before, err := a.at(ctx, 0, driver.Adopter{}, "")
	if err != nil {
		return driver.Adopter{}, err
	}
	now, err := a.at(ctx, 0, by, instead)
	if err != nil || by.Installation == "" || by.Installation != now.Installation {
		return now, err
	}
	errs := make([]error, len(a.l.h.Leases))
	a.l.p.each(len(errs), func(i int) {
		if i == 0 || a.l.h.Leases[i].Driver == "" { // the host never granted one
			return
		}
		there, err := a.at(ctx, i, driver.Adopter{}, "")
		if err == nil {
			_, err = a.at(ctx, i, by, there.Installation)
		}
		if before.Installation == by.Installation && (core.IsKind(err, core.Transient) || core.IsKind(err, core.NotFound)) {
			return // the host computes no more, or has it on record already
		}
		errs[i] = err
	})
	return now, errors.Join(errs...)
}

// at is Adopt on one host.
func (a adopters) at(ctx context.Context, i int, by driver.Adopter, instead string) (driver.Adopter, error) {
	c := a.l.call(i, 0)
	c.Adopter, c.Instead = by, instead
	found, err := ask(ctx, a.l, i, hostcall.CallAdopt, c)
	return driver.Adopter(found), err
}

// foreignLeases has the agents of a site's hosts check what another installation has recorded
// of their leases.
type foreignLeases struct{ p *provider }

// Checked implements driver.ForeignLeases. Of a foreign handle only the names of hosts count,
// and these are the site's. All else is the word of the agents there.
func (f foreignLeases) Checked(ctx context.Context, h core.Handle) (core.Handle, error) {
	own, err := f.named(h)
	if err != nil {
		return h, err
	}
	granted, errs := make([]hostcall.Granted, len(own.Hosts)), make([]error, len(own.Hosts))
	f.p.each(len(own.Hosts), func(i int) { granted[i], errs[i] = f.granted(ctx, own.Hosts[i], own.Leases[i], h.Owner) })
	for i, err := range errs {
		if err != nil {
			return h, &core.Error{Kind: core.KindOf(err), Op: "find the lease of run " + h.Owner.Run + " on", Object: own.Hosts[i], Err: err, Remedy: core.Remedy(err)}
		}
	}
	if f.p.info == nil {
		shared := len(own.Known) > 1 && own.Known[0].Dir == own.Known[1].Dir
		own.Known = nil
		for i, g := range granted {
			if len(g.Hosts) != 1 {
				return h, f.invalid(h, fmt.Errorf("%s has %d hosts for it, expected 1", own.Hosts[i], len(g.Hosts)))
			}
			known := g.Hosts[0]
			known.Index, known.Name, known.Addrs = i, sshlink.NameOf(own.Hosts[i]), nil
			if shared { // as lease.share has found them
				known.Dir = granted[0].Hosts[0].Dir
			}
			own.Known = append(own.Known, known)
		}
	}
	h.Data, err = json.Marshal(own)
	return h, err
}

// named reads a handle whose hosts are those of the site.
func (f foreignLeases) named(h core.Handle) (own handle, err error) {
	if h.Driver != f.p.Info().Name || h.Version != handleVersion {
		return own, f.invalid(h, fmt.Errorf("it is of driver %q, version %d, expected %s, version %d", core.Printable(h.Driver, 80), h.Version, f.p.Info().Name, handleVersion))
	}
	if err := core.DecodeJSON(h.Data, &own); err != nil {
		return own, f.invalid(h, err)
	}
	if len(own.Hosts) == 0 || len(own.Hosts) > len(f.p.s.Hosts) || len(own.Leases) != len(own.Hosts) {
		return own, f.invalid(h, fmt.Errorf("it has %d hosts and %d leases, and the site %d hosts", len(own.Hosts), len(own.Leases), len(f.p.s.Hosts)))
	}
	for i, host := range own.Hosts {
		if !slices.Contains(f.p.s.Hosts, host) || slices.Contains(own.Hosts[:i], host) {
			return own, f.invalid(h, fmt.Errorf("it names host %q, and the site has %s", core.Printable(host, 80), f.p.s.Hosts))
		}
		if own.Leases[i].Owner != h.Owner {
			return own, f.invalid(h, errors.New("its parts are of different owners"))
		}
	}
	return own, nil
}

// granted returns a lease on a host as its agent has it, if the host lists that lease.
func (f foreignLeases) granted(ctx context.Context, host string, h core.Handle, o core.Owner) (hostcall.Granted, error) {
	k, err := f.p.ssh.Connect(ctx, host)
	if err != nil {
		return hostcall.Granted{}, err
	}
	defer f.p.ssh.Keep(k)
	c := f.p.call(host)
	c.Owner = o
	found, err := rpc.Call(ctx, k.Peer, hostcall.CallList, c)
	if err != nil {
		return hostcall.Granted{}, sshlink.Transient(err)
	}
	if !slices.ContainsFunc(found, func(l core.Handle) bool {
		return l.Driver == h.Driver && l.Version == h.Version && l.Owner == h.Owner && bytes.Equal(l.Data, h.Data)
	}) {
		return hostcall.Granted{}, &core.Error{Kind: core.NotFound, Err: fmt.Errorf("it is not in the `scratch` of site %s", f.p.s.Name)}
	}
	c.Handle = h
	g, err := rpc.Call(ctx, k.Peer, hostcall.CallReady, c)
	return g, sshlink.Transient(err)
}

func (f foreignLeases) invalid(h core.Handle, err error) error {
	return &core.Error{
		Kind: core.Invalid, Op: "check the lease of run", Object: core.Printable(h.Owner.Run, 80), Err: err,
		Remedy: "Give site " + f.p.s.Name + " the same hosts as on the machine that submitted the run.",
	}
}
