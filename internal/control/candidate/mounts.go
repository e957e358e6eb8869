package candidate

import (
	"context"
	"fmt"
	"path"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// Mounts finds the directories of the site that the job mounts. Unsupported: the site cannot
// take the job, as one is not there or the user may not use it.
func (s *Site) Mounts(ctx context.Context) ([]protocol.Mount, error) {
	if len(s.Job.Mounts) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout) // a file system may not answer
	defer cancel()
	mounts, wanted := make([]protocol.Mount, len(s.Job.Mounts)), make([]driver.Directory, len(s.Job.Mounts))
	for i, m := range s.Job.Mounts {
		from, err := m.Source(s.Spec)
		if err != nil {
			return nil, err
		}
		mounts[i], wanted[i] = protocol.Mount{To: path.Clean(m.To), Write: m.Write}, driver.Directory{Path: from, Write: m.Write}
	}
	paths, err := s.Provider.Directories(ctx, wanted)
	if err != nil {
		return nil, &core.Error{Kind: core.KindOf(err), Op: "use site", Object: s.Spec.Name, Err: err, Remedy: core.Remedy(err)}
	}
	if len(paths) != len(mounts) {
		return nil, &core.Error{Kind: core.Lost, Op: "use site", Object: s.Spec.Name, Err: fmt.Errorf("it reports %d directories, expected %d", len(paths), len(mounts)), Remedy: core.RemedyVersions}
	}
	for i := range mounts {
		mounts[i].From = paths[i]
	}
	return mounts, nil
}
