package control

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// sameKept compares what a store says that it has kept with the tree on the site.
func (a *attempt) sameKept(ctx context.Context, g driver.Generation, m driver.Manifest, remote string) error {
	if err := m.Valid(g); err != nil {
		return &core.Error{Kind: core.Permanent, Err: fmt.Errorf("the store says what cannot be of checkpoint %s: %w", g, err)}
	}
	if a.checked() {
		return nil
	}
	err := a.transfers().Retry(ctx, func() error {
		return a.same(ctx, driver.Checkpoint{Generation: g, Manifest: m}, remote)
	})
	if errors.Is(err, errOther) {
		return &core.Error{Kind: core.Permanent, Err: errors.New("what is there is not what the site has"), Remedy: "See who may write to the store."}
	}
	return err
}

// sameRestored compares what a store has sent with the checkpoint that it was given.
func (a *attempt) sameRestored(ctx context.Context, k driver.Checkpoint, remote string) error {
	done := a.sameAs == k.Manifest.Digest()
	a.sameAs = ""
	if a.checked() || done {
		return nil
	}
	err := a.transfers().Retry(ctx, func() error { return a.same(ctx, k, remote) })
	if errors.Is(err, errOther) {
		return errors.Join(driver.ErrDamaged, err)
	}
	return err
}

// checked reports whether nothing on the way to the run's checkpoints could have changed
// them unseen.
func (a *attempt) checked() bool {
	if !a.checkpoints().Elsewhere() {
		return true
	}
	return a.checkpoints().Opened().ChecksContent()
}
