package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// post runs the job's last command, once node 0's volume has the files of all hosts.
func (h *head) post(ctx context.Context) (core.Exit, error) {
	h.n.setPhase(core.PhasePost)
	h.journal.begin(core.PhasePost)
	defer h.journal.end(core.PhasePost)
	for rank := range h.n.config.Size {
		if !h.ownVolume(rank) {
			continue
		}
		if err := h.gather(ctx, rank, []string{"."}, plan.VolumeDir(h.n.config.Host.Dir)); err != nil {
			return core.Exit{}, h.n.failed("bring the files together for `post:` of", fmt.Errorf("%s: %w", h.hosts.nameOf(rank), err))
		}
	}
	return h.task(ctx, h.plan.Post, nil)
}

// volumeAsWanted refuses hosts that share no volume, where the job needs one.
func (h *head) volumeAsWanted() error {
	if !h.plan.SharedVolume || h.shared || h.hasVolumeImage() {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use hosts", Err: errors.New("they share no file system, and the job has `volume: {shared: required}`"),
		Remedy: "Name as `scratch:` of the site a directory that all its hosts see, or a site with one.",
	}
}
