package guest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/vm/agent"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// makeHeld gives the user a directory on docker's disk for what would else be
// shared by the host.
func makeHeld(c agent.Config) error {
	on := filepath.Join(data, "held")
	if err := os.Mkdir(on, 0o755); err != nil {
		return err
	}
	if err := os.Chown(on, c.UID, c.GID); err != nil {
		return err
	}
	return mount{on, agent.HeldDir, "", unix.MS_BIND, ""}.do()
}

// held checks a name that the host gave.
func held(dir string) error {
	if dir != filepath.Clean(dir) || !strings.HasPrefix(dir, agent.HeldDir+"/") {
		return &core.Error{Kind: core.Invalid, Op: "use directory", Object: dir, Err: errors.New("it does not lie in " + agent.HeldDir)}
	}
	return nil
}

// put takes files from the host.
func put(ctx context.Context, s *wire.Stream) error {
	var dir string
	if err := s.Params(&dir); err != nil {
		return err
	}
	if err := held(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := s.Reply(nil); err != nil {
		return err
	}
	var done agent.PutDone
	if err := filestream.Receive(ctx, s, dir); err != nil {
		done.Error = err.Error()
	}
	return wire.WriteMessage(s, done)
}

// get gives files to the host.
func get(ctx context.Context, s *wire.Stream) error {
	var r agent.GetRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	if err := held(r.Dir); err != nil {
		return err
	}
	root, err := fsutil.OpenRoot(r.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	root.Seen = r.Seen
	files, err := filestream.Match(root, r.Patterns)
	if err != nil {
		return err
	}
	if err := s.Reply(len(files)); err != nil || len(files) == 0 {
		return err
	}
	return filestream.SendMany(ctx, s, r.Dir, files, nil)
}
