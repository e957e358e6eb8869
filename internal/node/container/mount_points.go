package container

import (
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
)

// MakeMountPoints makes the directories of the volume that mounts appear at. No engine
// makes them then, which would own them.
func MakeMountPoints(volume string, plan *plan.Plan) error {
	for _, m := range plan.Mounts {
		rel, is := plan.InVolume(m.To)
		if !is {
			continue
		}
		if err := makeBelow(volume, rel); err != nil {
			return &core.Error{
				Kind: core.Invalid, Op: "mount at", Object: m.To, Err: err,
				Remedy: "Something else of that name is in the volume: name another `to:`, such as a directory outside of the volume.",
			}
		}
	}
	return nil
}

// makeBelow makes a directory in the volume, which jobs have filled: over no link.
func makeBelow(volume, rel string) error {
	r, err := fsutil.OpenRoot(volume)
	if err != nil {
		return err
	}
	defer r.Close()
	return r.MkdirAll(rel, 0o755)
}
