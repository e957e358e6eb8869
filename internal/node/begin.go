package node

import (
	"context"

	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
)

// begin is the first part of an attempt's start on a node that is not the
// head: it gets to know the others, and gets the image and the inputs.
func (n *node) begin(ctx context.Context, r peercall.BeginRequest) error {
	n.known.learn(r.Plan, r.Members, r.Network)
	n.group = n.findGroup(r.Nonces)
	if err := n.links.join(&r.Plan); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	parts := []func() error{
		func() error { return n.pool.ReachOthers(ctx) },
		func() error { return n.HaveImage(ctx, spread.Image, r.Plan.Image, r.CacheToken) },
	}
	if r.Plan.VM != nil {
		parts = append(parts, func() error { return n.HaveImage(ctx, spread.Guest, r.Plan.VM.Guest, r.CacheToken) })
	}
	if len(r.Plan.Binds) > 0 {
		parts = append(parts, func() error {
			return n.spreads.HaveTree(ctx, spread.Inputs, plan.InputsDir(n.config.Host.Dir), n.group)
		})
	}
	results := make(chan error, len(parts))
	for _, part := range parts {
		go func() { results <- part() }()
	}
	var first error
	for range parts {
		if err := <-results; err != nil && first == nil {
			first = err
			cancel(err)
		}
	}
	return first
}
