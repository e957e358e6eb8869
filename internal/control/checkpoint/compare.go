package checkpoint

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// sameKept compares what a store says that it has kept with the tree on the site.
func (c *Copier) sameKept(ctx context.Context, g driver.Generation, m driver.Manifest, remote string) error {
	if err := m.Valid(g); err != nil {
		return &core.Error{Kind: core.Permanent, Err: fmt.Errorf("the store says what cannot be of checkpoint %s: %w", g, err)}
	}
	if c.checked() {
		return nil
	}
	err := c.Site.Retry(ctx, func() error {
		return c.same(ctx, driver.Checkpoint{Generation: g, Manifest: m}, remote)
	})
	if errors.Is(err, errOther) {
		return &core.Error{Kind: core.Permanent, Err: errors.New("what is there is not what the site has"), Remedy: "See who may write to the store."}
	}
	return err
}

// sameRestored compares what a store has sent with the checkpoint that it was given.
func (c *Copier) sameRestored(ctx context.Context, k driver.Checkpoint, remote string) error {
	done := c.Compared.as == k.Manifest.Digest()
	c.Compared.as = ""
	if c.checked() || done {
		return nil
	}
	err := c.Site.Retry(ctx, func() error { return c.same(ctx, k, remote) })
	if errors.Is(err, errOther) {
		return errors.Join(driver.ErrDamaged, err)
	}
	return err
}

// checked reports whether nothing on the way to the run's checkpoints could have changed
// them unseen.
func (c *Copier) checked() bool {
	if !c.Kept.Elsewhere() {
		return true
	}
	return c.Kept.Opened().ChecksContent()
}

// same compares a directory on the head's host with the checkpoint in the store: a run
// continues from nothing else.
func (c *Copier) same(ctx context.Context, k driver.Checkpoint, remote string) error {
	same, err := c.Site.Lease.Matches(ctx, remote, k.Manifest)
	if err == nil && !same {
		err = errOther
	}
	if err == nil {
		c.Compared.as = k.Manifest.Digest()
	}
	return err
}

var errOther = errors.New("it is not the one in the run's store")
