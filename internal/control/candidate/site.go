// Package candidate asks a site whether it takes a job, when, and with which directories. It
// knows providers, and changes nothing.
package candidate

import (
	"context"
	"time"

	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Site is one that may take a job.
type Site struct {
	Spec      spec.Site
	Provider  driver.Provider
	Job       *spec.Job
	Binary    string    // of bee, on this machine
	Submitted time.Time // the run; zero: it is none yet
}

// Request is what the job asks of the site.
func (s *Site) Request(o core.Owner) driver.Request {
	return driver.Request{Submitted: s.Submitted, Owner: o, Nodes: s.Job.Hosts(), SlotsPerNode: s.Job.SlotsPerHost(), Memory: s.Job.MemoryPerHost(), GPUs: int(s.Job.GPUs), RDMA: s.Job.RDMA.Device == spec.RDMAHost, PCI: s.Job.RDMA.PCI, Interruptible: s.Job.Interruptible(), Binary: s.Binary}
}

// Check asks the site whether it can take the run of an owner now. earlier lists the attempts
// of the run.
func (s *Site) Check(ctx context.Context, o core.Owner, earlier func(ctx context.Context) ([]state.Attempt, error)) (facts driver.Facts, mounts []protocol.Mount, err error) {
	if facts, err = s.Provider.Probe(ctx); err != nil {
		return facts, nil, err
	}
	if err := placement.CheckFacts(s.Spec.Name, facts, s.Job.Hosts()); err != nil {
		return facts, mounts, err
	}
	if mounts, err = s.Mounts(ctx); err != nil {
		return facts, mounts, err
	}
	if err := s.Occupied(ctx, o); err != nil || facts.Left == 0 {
		return facts, mounts, err
	}
	attempts, err := earlier(ctx)
	if err != nil {
		return facts, mounts, err
	}
	return facts, mounts, placement.CheckLeft(s.Spec, s.Provider.Info().Summary, facts, placement.LearnMargin(s.Job, s.Spec, attempts, true))
}
