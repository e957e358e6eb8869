package guest

import (
	"context"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/guest/api"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/treesync"
	"golang.org/x/sys/unix"
)

// makeHeld gives the user a directory on docker's disk for what would else be
// shared by the host.
func makeHeld(c api.Config) error {
	on := filepath.Join(data, "held")
	if err := os.Mkdir(on, 0o755); err != nil {
		return err
	}
	if err := os.Chown(on, c.UID, c.GID); err != nil {
		return err
	}
	return mount{on, api.HeldDir, "", unix.MS_BIND, ""}.do()
}

// put takes files from the host.
func put(ctx context.Context, _ rpc.Caller, r api.PutRequest, s rpc.Answer[rpc.None]) error {
	if err := os.MkdirAll(r.Dir, 0o755); err != nil {
		return err
	}
	if err := s.Reply(rpc.None{}); err != nil {
		return err
	}
	return rpc.Send(s, rpc.Fail(treesync.Receive(ctx, s, r.Dir)), rpc.DefaultSize)
}

// get gives files to the host.
func get(ctx context.Context, _ rpc.Caller, r api.GetRequest, s rpc.Answer[api.GetReply]) error {
	root, err := fsutil.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	root.Seen = r.Seen
	files, err := treesync.Match(root, r.Patterns)
	if err != nil {
		return err
	}
	if err := s.Reply(api.GetReply{Files: len(files)}); err != nil || len(files) == 0 {
		return err
	}
	return treesync.SendMany(ctx, s, r.Dir, files, nil)
}
