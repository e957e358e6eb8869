package head

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// prefetch copies files of the remote into the burst buffer, while the job starts and runs.
func (v *burstVolume) prefetch(b Burst) {
	globs := volumeGlobs(v.plan, v.plan.Burst.Prefetch)
	if len(globs) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(v.end.over)
	v.enough = cancel
	v.prefetching.Go(func() {
		p, err := b.Prefetch(ctx, globs)
		switch {
		case ctx.Err() != nil: // the job is faster
		case err != nil: // it reads them from the remote
			v.journal.Remark(core.PhaseStart, fmt.Sprintf("files were not fetched ahead: %v", err))
		case p.Left > 0:
			v.journal.Remark(core.PhaseStart, fmt.Sprintf("%d files (%d bytes) were fetched ahead; for %d others there was no room, or they could not be read", p.Files, p.Bytes, p.Left))
		default:
			v.journal.Say(core.PhaseStart, fmt.Sprintf("%d files (%d bytes) were fetched ahead", p.Files, p.Bytes))
		}
	})
}

// endPrefetch returns once nothing more is copied.
func (v *burstVolume) endPrefetch() {
	if v.enough != nil {
		v.enough()
	}
	v.prefetching.Wait()
}
