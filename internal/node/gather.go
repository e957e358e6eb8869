package node

import (
	"context"
	"errors"
	"io/fs"
	"path"

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
	return h.globsOf(wanted)
}

// volumeWanted reports whether all that the volume holds is wanted: the run continues from
// it or, where the job was asked to write its checkpoint and did not end, its user may.
func (h *head) volumeWanted() bool { return h.saved || h.asked }

// globsOf gives those of some container paths that are in the volume, relative to it.
func (h *head) globsOf(paths []string) []string {
	var globs []string
	for _, p := range paths {
		if p = path.Clean(p); p == path.Clean(h.plan.Volume) {
			globs = append(globs, ".")
		} else if rel, ok := h.plan.InVolume(p); ok {
			globs = append(globs, rel)
		}
	}
	return globs
}

// ownVolume reports whether another node has a volume of its own: one whose files this
// node does not see. Of those on one host, the first has it.
func (h *head) ownVolume(rank int) bool {
	return rank > 0 && (h.hosts.groups[rank] == rank || h.plan.HoldsVolume()) && !h.hasVolumeImage()
}

// gather takes from a node the files of its volume that a directory has not: the
// node lists what it has, the head picks, the node sends.
func (h *head) gather(ctx context.Context, rank int, list []string, into string) error {
	have, err := fsutil.OpenRoot(into)
	if err != nil {
		return err
	}
	defer have.Close()
	p, err := h.n.pool.peer(ctx, rank)
	if err != nil {
		return err
	}
	s, _, err := rpc.Open(ctx, p, callGather, globs{list})
	if err != nil {
		return err
	}
	defer s.Close()
	var missing []string
	for {
		m, err := rpc.Receive[names](s, maxNames)
		if err != nil {
			return err
		}
		if len(m.Files) == 0 {
			break
		}
		for _, f := range m.Files {
			there, err := have.Exists(f)
			if err == nil && !there && reachable(have, f) {
				missing = append(missing, f)
			}
		}
	}
	some := len(missing) > 0
	for len(missing) > 0 {
		k := min(batch, len(missing))
		if err := rpc.Send(s, names{missing[:k]}, maxNames); err != nil {
			return err
		}
		missing = missing[k:]
	}
	if err := rpc.Send(s, names{}, maxNames); err != nil || !some {
		return err
	}
	return treesync.Receive(ctx, s, into)
}

// reachable reports whether a file can be put at a name: no element before its last is
// there as anything but a directory.
func reachable(tree *fsutil.Root, name string) bool {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := tree.Lstat(dir)
		if err == nil {
			return info.IsDir()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

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
