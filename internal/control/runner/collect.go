package runner

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"

	machinery "github.com/bee-hpc/bee/internal/control/attempt"
	"github.com/bee-hpc/bee/internal/control/headlink"
	"github.com/bee-hpc/bee/internal/control/outputs"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// collect collects the output, the nodes' logs and the job's outputs. Only
// when it has succeeded may the lease be released: until then the site holds
// the only copy. absent is why the run fails by outputs that were not there, out what the result
// means otherwise.
func (a *attempt) collect(ctx context.Context, r *protocol.Result, out outcome) (absent *core.Error, err error) {
	err = a.rec.timed(ctx, core.PhaseCollect, func() error {
		home := a.c.Store.RunDir(a.run.ID)
		var logs sync.WaitGroup
		logs.Go(func() { a.guard(func() { a.at.headFiles().Logs(ctx) }) })
		defer logs.Wait()
		head := a.at.lease.Hosts()[0].Dir
		log := driver.Transfer{Remote: protocol.OutputPath(head), Local: headlink.OutputLog(home, a.rec.N)}
		if err := a.at.transfers().Retry(ctx, func() error { return headlink.FetchFile(ctx, a.at.lease, log, 0) }); err == nil {
			if err := fsutil.SyncTree(ctx, log.Local); err != nil {
				return a.at.collector().Failed(err)
			}
		} else if !errors.As(err, new(headlink.InvalidReport)) && !core.IsKind(err, core.NotFound) {
			return a.at.collector().Failed(err)
		}
		a.rec.Outputs, absent = nil, nil // an earlier try may have brought some
		if a.rec.doesWithout(ctx) {
			clearArrivals(&a.sub, a.c.Log, a.run.ID)
			a.rec.event(ctx, event.OutputsSkipped{})
			return nil
		}
		found := a.at.collector()
		collect := func() (err error) { absent, err = found.Collect(ctx, head, r); return err }
		if r.Outputs == nil && r.Exit == nil {
			collect = func() error { return found.Salvage(ctx, head, a.ownVolumes(ctx)) }
		}
		if err := collect(); err != nil {
			return err
		}
		remoteFiles{a.controlled}.tryAbort(ctx)
		if err := found.Send(ctx); err != nil {
			return err
		}
		return collectedCases(ctx, a.rec, found.Came, r)
	})
	if err != nil {
		if ctx.Err() == nil {
			a.rec.event(ctx, event.CollectFailed{Cause: event.CauseOf(err)})
		}
		return nil, err
	}
	if absent != nil {
		out = outcome{state: state.Failed, err: absent}
		a.rec.blame(out)
		a.rec.Verdict = state.NotContinued
	}
	lent, unlock, err := lentVolume{a}.wanted(ctx, out)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if lent || a.keeping.lends(ctx) {
		a.rec.on(machinery.Lent)
	} else {
		a.rec.on(machinery.Collected)
	}
	// On a site of this machine, too: what it has is removed next.
	return absent, a.rec.write(context.WithoutCancel(ctx), state.Change{Durable: true})
}

// ownVolumes returns the hosts, but that of the head, that do not share its directory: the
// head would have gathered what is in their volumes.
func (a *attempt) ownVolumes(ctx context.Context) []core.Host {
	var own []core.Host
	hosts := a.at.lease.Hosts()
	for i, h := range hosts[1:] {
		h.Index = i + 1
		nonce := driver.Transfer{Host: h.Index, Remote: protocol.NoncePath(h.Dir, 0), Local: filepath.Join(a.c.Store.RunDir(a.run.ID), "nonce")}
		err := a.at.transfers().Retry(ctx, func() error { return headlink.FetchFile(ctx, a.at.lease, nonce, 4096) })
		fsutil.TryRemoveAll(nonce.Local) // it may not have come
		switch {
		case core.IsKind(err, core.NotFound):
			own = append(own, h)
		case err != nil && ctx.Err() == nil:
			a.rec.event(ctx, event.HostLeftOut{Host: h.Name, Cause: event.CauseOf(err)})
		}
	}
	return own
}

// unreached reports whether an error may mean that the site does not answer.
func unreached(err error) bool {
	return core.IsKind(err, core.Transient) || core.IsKind(err, core.Lost)
}

// clearArrivals removes the partial outputs of a run that gets no more of them. Another run
// may have the same `to:`. The caller has the run's lock.
func clearArrivals(s *submission.Submission, log *slog.Logger, run string) {
	for _, o := range s.Job.Outputs {
		if err := outputs.ClearArrivals(s.Confined(), run, o.To); err != nil {
			log.Warn("partial outputs could not be removed", "run", run, "from", o.To, "err", err)
		}
	}
}
