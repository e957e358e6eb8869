package control

import (
	"context"
	"fmt"
	"path"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// mountsOn finds the directories of a site that a job mounts. Unsupported: the site cannot
// take the job, as one is not there or the user may not use it.
func mountsOn(ctx context.Context, p driver.Provider, site spec.Site, job *spec.Job) ([]protocol.Mount, error) {
	if len(job.Mounts) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, forecastTimeout) // a file system may not answer
	defer cancel()
	mounts, wanted := make([]protocol.Mount, len(job.Mounts)), make([]driver.Directory, len(job.Mounts))
	for i, m := range job.Mounts {
		from, err := m.Source(site)
		if err != nil {
			return nil, err
		}
		mounts[i], wanted[i] = protocol.Mount{To: path.Clean(m.To), Write: m.Write}, driver.Directory{Path: from, Write: m.Write}
	}
	paths, err := p.Directories(ctx, wanted)
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "use site", Object: site.Name, Err: err, Remedy: core.Remedy(err)}
	}
	if len(paths) != len(mounts) {
		return nil, &core.Error{Kind: core.Lost, Op: "use site", Object: site.Name, Err: fmt.Errorf("it reports %d directories, expected %d", len(paths), len(mounts))}
	}
	for i := range mounts {
		mounts[i].From = paths[i]
	}
	return mounts, nil
}
