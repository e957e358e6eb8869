package slurm

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/provider/leasedir"
)

// StageSpec implements driver.Autostart: the launch spec is stored in the lease's
// directory, for the user alone, under a name that no agent looks at.
func (l *lease) StageSpec(_ context.Context, launchSpec []byte) error {
	if err := fsutil.WriteFile(filepath.Join(l.dir, draftName), launchSpec, 0o600); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}

// Attend implements driver.Autostart. The first agent of the job finds the mark by
// its name.
func (l *lease) Attend(context.Context) error {
	mark := filepath.Join(l.dir, attendedName)
	if there, err := fsutil.Exists(mark); err != nil || there {
		return err
	}
	if err := fsutil.WriteFile(mark, nil, 0o600); err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}

// EnableSpec implements driver.Autostart. The first agent of the job finds the
// launch spec by its name, whether it runs already or will only in days.
func (l *lease) EnableSpec(context.Context) error {
	launchSpec := filepath.Join(l.dir, specName)
	if there, err := fsutil.Exists(launchSpec); err != nil || there {
		return err
	}
	err := fsutil.Rename(filepath.Join(l.dir, draftName), launchSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "enable the launch spec of", Object: l.owner.String(), Err: err}
	}
	if err != nil {
		return leasedir.Unusable(l.dir, err)
	}
	return nil
}
