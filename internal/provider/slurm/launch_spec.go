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

// leaseAutostart has the first agent of a job start the nodes.
type leaseAutostart struct{ l *lease }

// StageSpec implements driver.Autostart: the launch spec is stored in the lease's
// directory, for the user alone, under a name that no agent looks at.
func (a leaseAutostart) StageSpec(_ context.Context, launchSpec []byte) error {
	if err := fsutil.WriteFile(filepath.Join(a.l.dir, draftName), launchSpec, 0o600); err != nil {
		return leasedir.Unusable(a.l.dir, err)
	}
	return nil
}

// Attend implements driver.Autostart. The first agent of the job finds the mark by
// its name.
func (a leaseAutostart) Attend(context.Context) error {
	mark := filepath.Join(a.l.dir, attendedName)
	if there, err := fsutil.Exists(mark); err != nil || there {
		return err
	}
	if err := fsutil.WriteFile(mark, nil, 0o600); err != nil {
		return leasedir.Unusable(a.l.dir, err)
	}
	return nil
}

// EnableSpec implements driver.Autostart. The first agent of the job finds the
// launch spec by its name, whether it runs already or will only in days.
func (a leaseAutostart) EnableSpec(context.Context) error {
	launchSpec := filepath.Join(a.l.dir, specName)
	if there, err := fsutil.Exists(launchSpec); err != nil || there {
		return err
	}
	err := fsutil.Rename(filepath.Join(a.l.dir, draftName), launchSpec)
	if errors.Is(err, fs.ErrNotExist) {
		return &core.Error{Kind: core.NotFound, Op: "enable the launch spec of", Object: a.l.owner.String(), Err: err}
	}
	if err != nil {
		return leasedir.Unusable(a.l.dir, err)
	}
	return nil
}
