package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// fenceTime bounds how long the stop of machines is waited for.
const fenceTime = 10 * time.Minute

// fencer stops the machines of a lease.
type fencer struct{ l *lease }

// Fence implements driver.Fencer. A machine that is about to stop, or to end, may still compute.
// Where this machine may not be admitted, their silence shows nothing.
func (f fencer) Fence(ctx context.Context) error {
	if f.l.isBarred() {
		return &core.Error{
			Kind: core.Transient, Op: "stop the machines of", Object: f.l.owner.String(), Err: errors.New("this machine's address was not admitted"),
			Remedy: "Write `network: {ssh_from: [ADDRESS/32]}` at the site.",
		}
	}
	ctx, cancel := context.WithTimeout(ctx, fenceTime)
	defer cancel()
	for pause := looks(); ; {
		live, stopped, err := f.look(ctx)
		if err != nil || stopped {
			return err
		}
		if len(live) > 0 {
			if err := f.l.p.api.Stop(ctx, live); err != nil {
				return err
			}
		}
		if err := pause.Wait(ctx); err != nil {
			return waiting(err, "machines stop", f.l.owner)
		}
	}
}

// look returns the machines that are still to be stopped, and whether all of the lease have stopped or are gone.
func (f fencer) look(ctx context.Context) (live []string, stopped bool, err error) {
	machines, err := f.l.p.machines(ctx, f.l.owner, f.l.r)
	if err != nil {
		return nil, false, err
	}
	stopped = len(f.l.r.Machines) > 0
	for _, m := range machines {
		stopped = stopped && (m.State == Stopped || m.State == Ended)
		if m.State <= Failed {
			live = append(live, m.ID)
		}
	}
	for _, id := range f.l.r.Machines {
		if stopped && !lists(machines, id) {
			if stopped, err = f.l.forgotten(ctx, machines, id); err != nil {
				return nil, false, err
			}
		}
	}
	return live, stopped, nil
}
