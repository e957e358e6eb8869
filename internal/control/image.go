package control

import (
	"bufio"
	"context"
	"os"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// stageImage brings the image to the head's host, unless its cache holds the image
// already. Only that host can tell: a cache at the same path may be another one. From
// there the nodes spread it. what names it, for people.
func (a *attempt) stageImage(ctx context.Context, what string, image core.Image, remote string) error {
	if there, err := a.lease.HasImage(ctx, 0, image.ID); err == nil && there {
		return nil
	}
	local := filepath.Join(a.c.Store.RunDir(a.run.ID), path.Base(remote))
	if err := a.flatten(ctx, image, local); err != nil {
		return err
	}
	defer os.Remove(local)
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	t := driver.Transfer{Local: local, Remote: remote, Progress: func(done int64) {
		a.c.Progress(core.PhaseStage)("sending "+what, done, info.Size())
	}}
	return a.transfers().Retry(ctx, func() error { return a.lease.Stage(ctx, t) })
}

func (a *attempt) flatten(ctx context.Context, image core.Image, local string) error {
	f, err := os.Create(local)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriterSize(f, 1<<20)
	if err := a.c.Images.ExportFlat(ctx, image.ID, w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Close()
}
