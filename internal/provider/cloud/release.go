package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// endTime bounds how long the end of machines is waited for. othersTime bounds how long something is that is still in use
// once their group is gone: a machine that is none of the lease's has it.
const (
	endTime    = 10 * time.Minute
	othersTime = time.Minute
)

// end ends all machines of a lease, waits until they are gone, and removes what they had in use. The caller
// holds the lease's lock.
func (p *provider) end(ctx context.Context, owner core.Owner, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, endTime)
	defer cancel()
	r, err := read(dir, owner)
	if err != nil {
		return err
	}
	gone := func(is bool) error {
		if r == nil || !r.Asked || r.Gone == is {
			return nil
		}
		r.Gone = is
		return r.write(dir)
	}
	var alone time.Time // since then, nothing but others is left
	for pause := looks(); ; {
		if err := p.endMachines(ctx, owner, r); err != nil {
			return err
		}
		if err := gone(true); err != nil {
			return err
		}
		err := p.endGroups(ctx, owner, r)
		switch {
		case err != nil:
			alone = time.Time{}
		case alone.IsZero():
			alone = time.Now()
			fallthrough
		default:
			err = inventory{p}.endOthers(ctx, owner)
		}
		if !core.IsKind(err, core.Busy) {
			return err
		}
		if err := gone(false); err != nil { // machines that are listed late are in the group
			return err
		}
		const unused = "their security group and disks are not in use any more"
		if !alone.IsZero() && time.Since(alone) > othersTime {
			return waiting(err, unused, owner)
		}
		if werr := pause.Wait(ctx); werr != nil {
			return waiting(errors.Join(werr, err), unused, owner)
		}
	}
}

func (p *provider) endMachines(ctx context.Context, owner core.Owner, r *record) error {
	pause := looks()
	for missed := 0; ; {
		machines, err := p.machines(ctx, owner, r)
		if err != nil {
			return err
		}
		var live []string
		gone := true
		for _, m := range machines {
			gone = gone && m.State == Ended
			if m.State < Ending {
				live = append(live, m.ID)
			}
		}
		if r != nil && missed == 0 {
			for _, id := range r.Machines { // known, and listed late
				if !lists(machines, id) {
					live = append(live, id)
				}
			}
		}
		if len(live) > 0 {
			if err := p.api.End(ctx, live); err != nil {
				return err
			}
		}
		switch {
		case gone && (accounted(machines, r) || missed > 0):
			return nil
		case gone: // a new machine may be listed late
			missed++
			err = core.Sleep(ctx, p.s.Settle)
		default:
			err = pause.Wait(ctx)
		}
		if err != nil {
			return waiting(err, "machines end", owner)
		}
	}
}

// accounted reports whether all machines that may have been rented are among those listed.
func accounted(machines []Machine, r *record) bool {
	if r == nil || !r.Asked {
		return true
	}
	return len(r.Machines) > 0 && !slices.ContainsFunc(r.Machines, func(id string) bool { return !lists(machines, id) })
}

// endGroups removes the groups of a lease. Busy: machines still use one.
func (p *provider) endGroups(ctx context.Context, owner core.Owner, r *record) error {
	groups, err := p.api.Groups(ctx, owner)
	if err != nil {
		return err
	}
	if r != nil && r.Group != "" && !slices.ContainsFunc(groups, func(g Group) bool { return g.ID == r.Group }) {
		groups = append(groups, r.group())
	}
	for _, g := range groups {
		if err := p.api.EndGroup(ctx, g); err != nil {
			return err
		}
	}
	return nil
}

// waiting is the error of a release that has to be continued later.
func waiting(err error, what string, owner core.Owner) error {
	return &core.Error{
		Kind: core.Transient, Op: "wait until the " + what + " of", Object: owner.String(), Err: fmt.Errorf("it takes longer: %w", err),
		Remedy: cmp.Or(core.OwnRemedy(err), "A later `bee` command continues."),
	}
}
