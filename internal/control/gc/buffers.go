package gc

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
)

// sweepBuffers removes from a site burst buffers that attempts have left there. One that has something which its
// remote lacks is drained, and never removed before that. Leases were released before, so that nobody writes to it any
// more; those of the owners held were not.
func (c *Collector) sweepBuffers(ctx context.Context, site spec.Site, p driver.Provider, held map[string]bool, how Sweeping) (found []Swept, err error) {
	buffers := p.BurstBuffers()
	if buffers == nil {
		return nil, nil
	}
	list, err := buffers.Left(ctx, c.State.User())
	errs := []error{err}
	for _, b := range list {
		if c.live(ctx, b.Owner) {
			continue
		}
		s := Swept{Site: site.Name, Owner: b.Owner.String(), Buffer: b.Host + ":" + b.Dir}
		known := false
		if b.Owner.User != "" {
			if known, err = c.explained(ctx, b.Owner.Run); err != nil {
				errs = append(errs, err)
				continue
			}
		}
		switch {
		case !known && !how.Force:
			s.Kept = keptUnknown
		case held[s.Owner]:
			s.Kept = keptLease
		case how.Dry:
			s.Kept = keptBuffer(b, b.State == driver.BufferDrained || b.State == driver.BufferRecord || b.State == driver.BufferConflicts && how.Force)
		default:
			var now driver.BurstBuffer
			if now, err = buffers.End(ctx, b, how.Force); err != nil {
				s.Error = err.Error()
				errs = append(errs, err)
			} else {
				s.Kept = keptBuffer(now, now.State == driver.BufferRemoved)
			}
		}
		found = append(found, s)
	}
	return found, errors.Join(errs...)
}

// keptBuffer is why a burst buffer is kept; "": it is gone, or will be.
func keptBuffer(b driver.BurstBuffer, gone bool) string {
	why := ""
	if gone {
		return why
	}
	switch b.State {
	case driver.BufferDrained, driver.BufferRecord:
		why = "it is drained, and could not be removed yet"
	case driver.BufferUndrained:
		why = fmt.Sprintf("it has the only copy of %d bytes in %d changes, and nothing drains it", b.Undrained, b.Changes)
	case driver.BufferDraining:
		why = "its I/O process runs"
		if b.Changes > 0 {
			why = fmt.Sprintf("it is drained, and its remote lacks %d bytes in %d changes", b.Undrained, b.Changes)
		}
	case driver.BufferSuperseded:
		why = fmt.Sprintf("it has %d bytes in %d changes, and its run has continued without them", b.Undrained, b.Changes)
	case driver.BufferConflicts:
		why = "it was drained"
	default:
		why = "what it has is not known"
	}
	if b.Detail != "" {
		why += ": " + core.Printable(b.Detail, 1000)
	}
	return why
}
