package node

import (
	"context"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// batch is how many names one message of a gathering holds.
const batch = 2000

// maxNames bounds such a message, in bytes: a path has 4,096, of which each may become
// six in JSON.
const maxNames = 64 << 20

// names is such a message. The last one of a list is empty.
type names struct {
	Files []string `json:"files,omitempty"`
}

// volumeGlobs are the outputs that are in the volume, relative to it.
func (h *head) volumeGlobs() []string {
	wanted := h.plan.Outputs
	if h.volumeWanted() && !h.plan.SavesVM() { // what other hosts saved goes along
		wanted = append(append([]string{}, wanted...), h.plan.Checkpoint.Paths...)
		if len(h.plan.Checkpoint.Paths) == 0 {
			wanted = append(wanted, h.plan.Volume)
		}
	}
	return globsOf(h.plan, wanted)
}

// volumeWanted reports whether all that the volume holds is wanted: the run continues from
// it or, where the job was asked to write its checkpoint and did not end, its user may.
func (h *head) volumeWanted() bool { return h.saver.saved || h.saver.asked }

// sendOutputs is a node's side of gather.
func (n *node) sendOutputs(ctx context.Context, _ rpc.Caller, g globs, s rpc.Answer[rpc.None]) error {
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	volume, err := fsutil.OpenRoot(n.machine.volume())
	if err != nil {
		return err
	}
	defer volume.Close()
	volume.Seen = n.known.job().Volume
	files, err := treesync.Match(volume, g.Globs)
	if err != nil {
		n.Log.Warn("outputs could not all be read", "err", err)
	}
	for len(files) > 0 {
		k := min(batch, len(files))
		if err := rpc.Send(s, names{files[:k]}, maxNames); err != nil {
			return err
		}
		files = files[k:]
	}
	if err := rpc.Send(s, names{}, maxNames); err != nil {
		return err
	}
	var wanted []string
	for {
		m, err := rpc.Receive[names](s, maxNames)
		if err != nil {
			return err
		}
		if len(m.Files) == 0 {
			break
		}
		wanted = append(wanted, m.Files...)
	}
	if len(wanted) == 0 {
		return nil
	}
	return treesync.SendMany(ctx, s, n.machine.volume(), wanted, nil)
}
