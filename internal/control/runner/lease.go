package runner

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/control/candidate"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/placement"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// siteLease is the site of an attempt, and its lease there. The parts of the attempt share
// it, as the lease is another one once it was recovered.
type siteLease struct {
	rec      *record
	site     spec.Site
	provider driver.Provider
	lease    driver.Lease
	// breaks are those of the connection over which files travel.
	breaks transfer.Breaks
}

// candidate is the attempt's site as one that may take the run.
func (at *siteLease) candidate() *candidate.Site {
	r := at.rec.of
	return &candidate.Site{Spec: at.site, Provider: at.provider, Job: &r.sub.Job, Binary: r.c.Binary, Submitted: r.run.Created}
}

// awaited reports whether the attempt's hosts are still to come.
func (at *siteLease) awaited() bool { return at.lease.Hosts()[0].Name == "" }

// collector returns what collects the attempt's outputs.
func (at *siteLease) collector() *outputs.Collector {
	r := at.rec.of
	c := &outputs.Collector{
		Run: r.run, User: r.c.Store.User(), Dir: r.c.Store.RunDir(r.run.ID), Job: &r.sub.Job, Within: r.sub.Confined(), InGuest: r.sub.InGuest,
		Site: at.transfers(), Attempt: &at.rec.Attempt, Records: r.c.Store, Remote: r.c.Remote,
	}
	if len(r.sub.Job.Pack) > 0 {
		c.Owed = func(ctx context.Context, output int) (bool, error) { return owedByCase(ctx, at.rec, output) }
	}
	return c
}

// whyTakenBack adds to the result why the site has taken the hosts back, if the site
// reports that within reasonWithin.
func (at *siteLease) whyTakenBack(ctx context.Context, result *protocol.Result) error {
	ctx, cancel := context.WithTimeout(ctx, reasonWithin)
	defer cancel()
	for {
		switch status, err := at.lease.Status(ctx); {
		case err != nil || status.Live:
			if at.lease.Hosts()[0].Spot { // only the cloud gives such a notice
				at.rec.HostsEnd = core.HostsReclaimed
			}
			return err
		case !status.Ending:
			at.rec.HostsEnd = status.End
			result.Message += " (" + status.Reason + ")"
			return nil
		}
		if err := core.Sleep(ctx, reasonWithin/20); err != nil {
			return err
		}
	}
}

// headFiles returns the files that the attempt's head leaves.
func (at *siteLease) headFiles() *headlink.Files {
	r := at.rec.of
	return &headlink.Files{
		Lease: at.lease, Site: at.site.Name, Run: r.run.ID, Dir: r.c.Store.RunDir(r.run.ID), Attempt: at.rec.N, NodesPerHost: r.sub.Job.NodesPerHost(), Guard: r.guard,
		Asked: protocol.Asked{Nodes: r.sub.Job.Nodes, Outputs: len(r.sub.Job.Outputs), Checkpoint: r.sub.Job.Checkpoint != nil, Cases: packedCases(&r.sub.Job), Progress: r.sub.Job.Progress != nil, Metrics: metricsOf(&r.sub.Job)},
	}
}

// transfers returns the attempt's site as one end of transfers.
func (at *siteLease) transfers() *transfer.Site {
	r := at.rec.of
	return &transfer.Site{
		Name: at.site.Name, Lease: at.lease, Routes: r.c.Routes, Breaks: &at.breaks,
		Progress: r.c.toward, Record: at.rec.event, RecordRoute: r.recordRoute,
	}
}

// choice returns in one line where the run is sent, and why there.
func (at *siteLease) choice() string {
	text := fmt.Sprintf("site %s (%s): %s", at.site.Name, at.provider.Info().Summary, at.rec.Why)
	if at.site.Slot > 0 {
		text += fmt.Sprintf("; %s", placement.SlotText(at.site, &at.rec.of.sub.Job))
		if submitted, err := at.rec.of.sub.Site(at.site.Name); err == nil && submitted.Slot != at.site.Slot {
			text += " (`max_cost`)"
		}
		if at.rec.of.sub.Job.Checkpoint == nil {
			text += ", and the job, which has no `checkpoint:`, is ended if it is not done then"
		}
	}
	return text
}
