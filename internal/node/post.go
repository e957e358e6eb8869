package node

import (
	"context"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// post runs the job's last command, once node 0's volume has the files of all hosts.
func (h *head) post(ctx context.Context) (core.Exit, error) {
	h.journal.Enter(core.PhasePost)
	defer h.journal.End(core.PhasePost)
	for rank := range h.n.config.Size {
		if !h.volumes.own(rank) {
			continue
		}
		if err := h.volumes.gather(ctx, rank, []string{"."}, plan.VolumeDir(h.n.config.Host.Dir)); err != nil {
			return core.Exit{}, failedOn(h.n.config.Host.Name, "bring the files together for `post:` of", fmt.Errorf("%s: %w", h.hosts.nameOf(rank), err))
		}
	}
	return h.commands.run(ctx, h.plan.Post, nil)
}
