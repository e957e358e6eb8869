package burst

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Exported is what Export has written.
type Exported struct {
	Files int `json:"files"`
	// Bytes are those of the files' content.
	Bytes int64 `json:"bytes"`
	// Absent are files with undrained changes whose content is on the remote alone.
	Absent []string `json:"absent,omitempty"`
}

// Export writes what is undrained of a volume that no process has open into an empty directory: whole files
// as they were last, at their names.
func Export(ctx context.Context, place, dir string) (x Exported, err error) {
	log, state, err := replayed(place, buffer.Options{})
	if err != nil {
		return x, err
	}
	defer log.Close()
	to, err := fsutil.OpenRoot(dir)
	if err != nil {
		return x, err
	}
	defer to.Close()
	var all []*meta.Node
	state.Nodes(func(n *meta.Node) {
		if (n.Dirty || n.Pending > 0) && n.Linked() && !n.Stays && n.Ino != meta.Root {
			all = append(all, n)
		}
	})
	for _, n := range all {
		if ctx.Err() != nil {
			return x, context.Cause(ctx)
		}
		name := state.Path(n)
		if n.Kind == remote.File && !n.Local {
			x.Absent = append(x.Absent, name)
			continue
		}
		if err := to.MkdirAll(path.Dir(name), 0o700); err != nil {
			return x, err
		}
		switch n.Kind {
		case remote.Dir:
			err = to.MkdirAll(name, 0o700)
		case remote.Link:
			err = to.Symlink(n.Target, name)
		default:
			x.Files, x.Bytes = x.Files+1, x.Bytes+n.Size
			err = exportFile(to, name, n, func(e meta.Extent, p []byte) error { return log.Read(e.Rec, e.Skip, p, true) })
		}
		if err != nil {
			return x, err
		}
	}
	return x, nil
}

func exportFile(to *fsutil.Root, name string, n *meta.Node, read func(meta.Extent, []byte) error) error {
	f, err := to.Create(name, 0o600)
	if err != nil {
		return err
	}
	for _, e := range n.Extents {
		p := make([]byte, e.Len)
		if err = read(e, p); err == nil {
			_, err = f.WriteAt(p, e.Off)
		}
		if err != nil {
			break
		}
	}
	if err == nil {
		err = f.Truncate(n.Size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return errors.Join(to.Chmod(name, fsutil.FileMode(n.Mode).Perm()), to.SetTime(name, time.Unix(0, n.Mtime)))
}
