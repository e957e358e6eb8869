package inputs

import (
	"bufio"
	"context"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/control/confine"
	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// Stager sends the image and the inputs of an attempt to the head's host.
type Stager struct {
	Site   *transfer.Site
	Remote *Remote
	Images Images
	Within confine.Dir       // of the job
	Binds  map[string]string // of its inputs
	// Progress reports how much of something is staged.
	Progress func(what string, done, total int64)
	// Reuse puts an input of the attempt before into its place, where both are on one machine.
	Reuse func(ctx context.Context, head core.Host, c Copy)
}

// Images is what staging needs of the image cache.
type Images interface {
	// ExportFlat writes the image as one stream that a node can import.
	ExportFlat(ctx context.Context, id string, w io.Writer) error
}

// Stage copies files and directories to their places below the run's directory on the head's
// host.
func (s *Stager) Stage(ctx context.Context, head core.Host, copies []Copy) error {
	for _, c := range copies {
		s.Reuse(ctx, head, c)
		within := s.Within
		if c.Within != "" {
			within = confine.Dir(c.Within)
		}
		local, done, err := within.Pin(c.Local)
		if err != nil {
			return err
		}
		progress, end := counting(ctx, c.Local, s.Progress)
		t := driver.Transfer{Local: local, Remote: path.Join(head.Dir, c.Remote), Progress: progress}
		err = s.Site.Retry(ctx, func() error { return s.Site.Lease.Stage(ctx, t) })
		end()
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

// StageImage copies the image to the head's host, unless its cache has the image already.
// Only that host knows: a cache at the same path may be another one. From there the nodes
// spread it. what names it, for people. dir is the directory of this machine in which the
// file to send is made.
func (s *Stager) StageImage(ctx context.Context, what string, image core.Image, dir, remote string) error {
	if there, err := s.Site.Lease.HasImage(ctx, 0, image.ID); err == nil && there {
		return nil
	}
	local := filepath.Join(dir, path.Base(remote))
	if err := s.flatten(ctx, image, local); err != nil {
		return err
	}
	defer os.Remove(local)
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	t := driver.Transfer{Local: local, Remote: remote, Progress: func(done int64) {
		s.Progress("sending "+what, done, info.Size())
	}}
	return s.Site.Retry(ctx, func() error { return s.Site.Lease.Stage(ctx, t) })
}

// flatten writes the image as one stream into a file.
func (s *Stager) flatten(ctx context.Context, image core.Image, local string) error {
	f, err := os.Create(local)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := s.Images.ExportFlat(ctx, image.ID, w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
