package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
)

// ReleaseOwned releases everything on a site that carries an owner's tag, but what another
// installation than own controls.
func ReleaseOwned(ctx context.Context, p Provider, q core.Owner, own string) error {
	// Of a site that answers in part, what is found is released.
	handles, err := Owned(ctx, p, q)
	var errs []error
	if err != nil {
		errs = append(errs, fmt.Errorf("list what is left: %w", err))
	}
	for _, h := range handles {
		_, err := ReleaseHandle(ctx, p, h, own)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Owned lists what on a site carries an owner's tag. A site that names anything else is not
// believed: releasing that would end another run's attempt, and that of an owner without a run those
// of all.
func Owned(ctx context.Context, p Provider, q core.Owner) ([]core.Handle, error) {
	handles, err := p.List(ctx, q)
	return slices.DeleteFunc(handles, func(h core.Handle) bool { return !h.Owner.Matches(q) || !h.Owner.Complete() }), err
}

// ReleaseHandle releases what a handle names, unless another installation than own controls its
// run: that one is returned. That it is gone already is success.
func ReleaseHandle(ctx context.Context, p Provider, h core.Handle, own string) (Adopter, error) {
	lease, err := p.Recover(ctx, h)
	if core.IsKind(err, core.NotFound) {
		return Adopter{}, nil
	}
	if err != nil {
		return Adopter{}, err
	}
	if p.Foreign() != nil {
		if by, err := AdoptedElsewhere(ctx, lease, own); err != nil || by.Installation != "" {
			lease.Disconnect()
			return by, err
		}
	}
	return Adopter{}, lease.Release(ctx)
}
