package head

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
)

// post runs the job's last command, once node 0's volume has the files of all hosts.
func (h *Head) post(ctx context.Context) (core.Exit, error) {
	h.journal.Enter(core.PhasePost)
	defer h.journal.End(core.PhasePost)
	for rank := range h.config.Size {
		if !h.volumes.own(rank) {
			continue
		}
		if err := h.volumes.gather(ctx, rank, []string{"."}, plan.VolumeDir(h.config.Host.Dir)); err != nil {
			return core.Exit{}, peercall.FailedOn(h.config.Host.Name, "bring the files together for `post:` of", fmt.Errorf("%s: %w", h.hosts.nameOf(rank), err))
		}
	}
	return h.commands.run(ctx, h.plan.Post, nil)
}
