package node

import (
	"context"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
)

// sendOutputs is a node's side of gather.
func (n *node) sendOutputs(ctx context.Context, _ rpc.Caller, g peercall.Globs, s rpc.Answer[rpc.None]) error {
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	volume, err := fsutil.OpenRoot(n.machine.Volume())
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
		k := min(peercall.Batch, len(files))
		if err := rpc.Send(s, peercall.Names{Files: files[:k]}, peercall.MaxNames); err != nil {
			return err
		}
		files = files[k:]
	}
	if err := rpc.Send(s, peercall.Names{}, peercall.MaxNames); err != nil {
		return err
	}
	var wanted []string
	for {
		m, err := rpc.Receive[peercall.Names](s, peercall.MaxNames)
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
	return treesync.SendMany(ctx, s, n.machine.Volume(), wanted, nil)
}
