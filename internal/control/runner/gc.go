package runner

import (
	"context"
	"slices"

	"github.com/bee-hpc/bee/internal/control/gc"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// Garbage finds and removes what nobody needs any more.
func (c *Runner) Garbage() *gc.Collector {
	sent := uploads{c.Store, c.Remote}
	return &gc.Collector{
		State: c.Store, Provider: c.Provider, Kept: c.Kept(), Waits: c.waitsForSecrets,
		StoreOf: storeOf, SiteOf: siteOf, Lends: func(ctx context.Context, run state.Run, at state.Attempt) bool { return lends(ctx, c.Store, run, at) }, Needed: func(ctx context.Context, id string) (string, error) { return submission.NeededBy(ctx, c.Store, id) },
		RemovePassed: func(ctx context.Context, run state.Run, dry bool) (bool, error) {
			return removePassed(ctx, c.Store, run, dry)
		},
		Release: func(ctx context.Context, run string) error { _, err := c.Drive(ctx, run, nil); return err },
		Uploads: sent.unfinished, AbortUploads: sent.abort,
		Report: func(message string) { c.ReportText(core.PhaseRelease, message) },
	}
}

// storeOf returns the store of a run and the run's name there, or "", "".
func storeOf(run state.Run) (store, name string) {
	sub, err := submission.Of(run)
	if err != nil { // a record that nobody can read names no store
		return "", ""
	}
	return sub.Job.Store, sub.StoreName
}

// siteOf returns a site of a run's submission, or nil.
func siteOf(run state.Run, name string) *spec.Site {
	sub, err := submission.Of(run)
	if err != nil { // a record that nobody can read names no site
		return nil
	}
	at := slices.IndexFunc(sub.Sites, func(s spec.Site) bool { return s.Name == name })
	if at < 0 {
		return nil
	}
	return &sub.Sites[at]
}
