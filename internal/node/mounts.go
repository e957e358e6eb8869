package node

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/hostdir"
	"github.com/bee-hpc/bee/internal/plan"
)

// openMounts opens the directories of the site that the job mounts, on this host. They
// stay open until done is called.
func openMounts(ctx context.Context, plan *plan.Plan) (mounts []driver.Mount, done func(), err error) {
	done = func() {
		for _, m := range mounts {
			m.Dir.Close()
		}
	}
	for _, m := range plan.Mounts {
		dir, err := hostdir.Open(ctx, m.From, m.Write)
		if err != nil {
			done()
			return nil, nil, err
		}
		mounts = append(mounts, driver.Mount{Source: m.From, Target: m.To, ReadOnly: !m.Write, Dir: dir})
	}
	return mounts, done, nil
}

// unmountable makes an error of kind Unsupported of one for which a runtime gave no
// reason, where the same container starts without the directories of the site. A daemon
// of root's has no access to what a file server shows to its user alone.
func unmountable(ctx context.Context, rt driver.Runtime, spec driver.ContainerSpec, err error) error {
	ofSite := func(m driver.Mount) bool { return m.Dir != nil }
	if core.KindOf(err) != core.Permanent || ctx.Err() != nil || rt.VM() != nil || !slices.ContainsFunc(spec.Mounts, ofSite) {
		return err
	}
	var sources []string
	for _, m := range spec.Mounts {
		if ofSite(m) {
			sources = append(sources, m.Source)
		}
	}
	spec.Mounts = slices.DeleteFunc(slices.Clone(spec.Mounts), ofSite)
	without, failed := rt.Start(ctx, spec)
	if failed != nil {
		return err // which is not about them, or not alone
	}
	core.BestEffort(without.Stop(context.WithoutCancel(ctx), time.Second)) // its error is no other reason
	return &core.Error{
		Kind: core.Unsupported, Op: "mount", Object: strings.Join(sources, ", "), Err: err,
		Remedy: "The runtime " + rt.Info().Name + " has no access to a directory that you may read: choose `runtime: rootless`.",
	}
}
