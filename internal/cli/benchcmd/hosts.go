package benchcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/bench/measure"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// hosts are those that a study uses from its first measurement to its last: an allocation of
// each site with a queue. Hosts of other sites are there at once.
type hosts struct {
	s    *workspace.Session
	say  func(text string)
	stop <-chan struct{} // closed: wait for no hosts any more
	// need is what the largest job of the study takes of a site.
	need driver.Request
	held []*control.Held
	// granted are allocations of the user's own, which bee does not release.
	granted []record.HeldSite
	// before are owners of hosts that an earlier process has held, by site.
	before map[string]string
	// allocations are those that an earlier process has measured in, by site.
	allocations map[string]string
	// fresh: a site has granted other hosts than before.
	fresh bool
}

// require notes what the jobs of a study need. Environments that are left out need nothing.
func (h *hosts) require(taker *measure.Taker, plan *record.Plan) error {
	h.need = driver.Request{}
	for _, p := range plan.Points {
		for _, e := range plan.Measured(p) {
			job, err := taker.Job(p, e, "")
			if err != nil {
				return err
			}
			if splits(taker.Study.Environments[e], job) { // on this machine alone: no site grants hosts for it
				continue
			}
			r := &h.need
			r.Nodes, r.SlotsPerNode, r.Memory = max(r.Nodes, job.Hosts()), max(r.SlotsPerNode, job.SlotsPerHost()), max(r.Memory, job.MemoryPerHost())
			r.GPUs, r.RDMA = max(r.GPUs, int(job.GPUs)), r.RDMA || job.RDMA.Device == spec.RDMAHost
			if job.GPUs < 0 {
				r.GPUs = -1
			}
		}
	}
	return nil
}

// of is a site with the hosts of the study, which it grants at the first call.
func (h *hosts) of(ctx context.Context, site spec.Site) (spec.Site, error) {
	switch {
	case site.Provider != "slurm":
		return site, nil
	case site.Granted():
		return site, h.note(ctx, site)
	}
	i := slices.IndexFunc(h.held, func(x *control.Held) bool { return x.Site.Name == site.Name })
	if i < 0 {
		held, err := h.acquire(ctx, site)
		if err != nil {
			return site, err
		}
		i, h.held = len(h.held), append(h.held, held)
	}
	site.Slurm = h.held[i].Site.Slurm
	return site, nil
}

func (h *hosts) acquire(ctx context.Context, site spec.Site) (*control.Held, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-h.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	if id := h.before[site.Name]; id != "" {
		held, err := h.s.Holds().Recover(ctx, site, id)
		if err == nil {
			h.say("continuing on the hosts of site " + site.Name)
			return held, nil
		}
		if !core.IsKind(err, core.NotFound) && !core.IsKind(err, core.Lost) {
			return nil, err
		}
	}
	h.fresh = true
	h.say(fmt.Sprintf("acquiring hosts of site %s for the whole study", site.Name))
	return h.s.Holds().Acquire(ctx, site, h.need, func(reason string) { h.say("waiting for hosts: " + output.Printable(reason)) })
}

// note notes an allocation of the user's.
func (h *hosts) note(ctx context.Context, site spec.Site) error {
	if slices.ContainsFunc(h.granted, func(x record.HeldSite) bool { return x.Site == site.Name }) {
		return nil
	}
	p, err := h.s.Provider(site)
	if err != nil {
		return err
	}
	facts, err := p.Probe(ctx)
	if err != nil {
		return err
	}
	if before := h.allocations[site.Name]; before != "" && before != site.Slurm.Job {
		h.fresh = true
	}
	x := record.HeldSite{Site: site.Name, Allocation: site.Slurm.Job}
	if facts.Left > 0 {
		x.Ends = time.Now().Add(facts.Left)
	}
	h.granted = append(h.granted, x)
	return nil
}

// acquireAll acquires the hosts of all environments of a plan.
func (h *hosts) acquireAll(ctx context.Context, taker *measure.Taker, p *record.Plan) error {
	if err := h.require(taker, p); err != nil {
		return err
	}
	for _, e := range p.Environments {
		i := slices.IndexFunc(p.Points, func(x record.Point) bool { return slices.Contains(x.Environments, e.Name) })
		if e.Dropped != "" || i < 0 {
			continue
		}
		job, err := taker.Job(p.Points[i], e.Name, "")
		if err != nil {
			return err
		}
		sites, err := h.s.Workspace.LoadSites(job)
		if err == nil && len(sites) > 0 {
			_, err = h.of(ctx, sites[0])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// ends is when the first site takes its hosts back; zero: none does.
func (h *hosts) ends() (first time.Time) {
	for _, x := range h.record(false) {
		if !x.Ends.IsZero() && (first.IsZero() || x.Ends.Before(first)) {
			first = x.Ends
		}
	}
	return first
}

// lost is an error where a site has taken back the hosts of the study.
func (h *hosts) lost(ctx context.Context) error {
	for _, x := range h.held {
		if err := x.Live(ctx); core.IsKind(err, core.Lost) {
			return err
		}
	}
	return nil
}

// record is what is known of the hosts, for the journal.
func (h *hosts) record(released bool) []record.HeldSite {
	all := slices.Clone(h.granted)
	for _, x := range h.held {
		r := record.HeldSite{Site: x.Site.Name, Owner: x.Owner.Run, Allocation: x.Site.Slurm.Job, Ends: x.Deadline(), Released: released}
		for _, host := range x.Hosts() {
			r.Hosts = append(r.Hosts, record.GrantedHost{Name: host.Name, Cores: host.Slots, Arch: host.Arch})
		}
		all = append(all, r)
	}
	return all
}

// releaseTimeout bounds the release of all hosts.
const releaseTimeout = time.Minute

// release releases what this process has acquired.
func (h *hosts) release() error {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	var errs []error
	for _, x := range h.held {
		if err := x.Release(ctx); err != nil {
			h.say(fmt.Sprintf("the hosts of site %s are not released: %v; `bee sweep` does it once the site answers", x.Site.Name, err))
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
