package inputs

import (
	"context"
	"path"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/control/transfer"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/spec"
)

// Remote has a run's remote inputs on this machine.
type Remote struct {
	Dir    string // of RemoteDir
	Source Source
	// Progress returns what is called with the bytes that are done, of a phase and in all;
	// 0: not known.
	Progress func(p core.Phase, what string, total int64) func(done int64)
}

// Source fetches remote inputs.
type Source interface {
	// Fetch stores a remote input at a path, at which it is once it is whole and has its
	// digest. What has come by a call that failed is used by the next.
	Fetch(ctx context.Context, in spec.Input, to string, progress func(done int64)) error
	// Away returns a remote input as a site can fetch it that must not have credentials. It is
	// the version that was fetched before, to the path of Fetch or by a site. Arrived checks
	// what a site says that it has fetched, and records the version.
	Away(ctx context.Context, in spec.Input, to string) (driver.Download, error)
	Arrived(d driver.Download, got driver.Downloaded, to string) error
}

// RemoteDir is the directory in a run's with its remote inputs, until the run is over.
func RemoteDir(runDir string) string { return filepath.Join(runDir, "remote") }

// file is the path of a remote input on this machine.
func (r *Remote) file(in spec.Input) (string, error) {
	from, _, err := spec.ParseRemote(in.From)
	if err != nil {
		return "", inputError(in, err)
	}
	return filepath.Join(r.Dir, DirName(in.From+"\n"+in.SHA256), from.Name()), nil
}

// Fetch fetches the remote inputs of a job, unless they are here, and names the files in
// the job in their place.
func (r *Remote) Fetch(ctx context.Context, job *spec.Job) error {
	job.Inputs = slices.Clone(job.Inputs)
	for i, in := range job.Inputs {
		if !spec.IsRemote(in.From) {
			continue
		}
		file, err := r.file(in)
		if err != nil {
			return err
		}
		if err := fsutil.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return &core.Error{Kind: core.KindOf(err), Op: "fetch", Object: in.From, Err: err}
		}
		t := driver.Transfer{Local: file, Progress: r.Progress(core.PhaseStage, "fetching "+path.Base(file), 0)}
		err = transfer.WithinSpace(ctx, t, func(ctx context.Context, t driver.Transfer) error { return r.Source.Fetch(ctx, in, file, t.Progress) })
		if err != nil {
			return err
		}
		job.Inputs[i].From = file
	}
	return nil
}
