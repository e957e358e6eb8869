package catalog

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/head"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// burstVolume mounts the burst buffer of a run on this host.
func burstVolume(ctx context.Context, b plan.Burst, run string) (head.Burst, error) {
	s, err := spec.ParseStore(b.Remote)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use remote", Object: b.Remote, Err: err}
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := mount.Options{
		Volumes: b.Records, Remote: b.Remote, At: remote.Place(s), Dir: filepath.Join(filepath.Dir(b.Records), "mounts", url.PathEscape(run)),
		Room: b.Disk, Rate: b.Rate, Protect: b.Protect, Everyone: os.Geteuid() == 0, Binary: binary,
	}
	if b.Checkpoints {
		o.Run, o.Globs, o.Number = run, b.Globs, b.Number
	}
	a, err := mount.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	return attemptVolume{a}, nil
}

// attemptVolume is the burst buffer of an attempt, as its node uses it.
type attemptVolume struct{ *mount.Attempt }

// End implements head.Burst.
func (a attemptVolume) End(ctx context.Context, e head.BurstEnd) (checkpoint int, notes []string, err error) {
	s, err := a.Attempt.End(ctx, mount.Ending(e))
	for _, c := range s.Conflicts {
		note := fmt.Sprintf("others have changed %s on the remote, which stays as it is there", core.Printable(c.Path, 500))
		if c.As != "" {
			note = fmt.Sprintf("others have changed %s on the remote; yours is %s beside it", core.Printable(c.Path, 500), core.Printable(c.As, 500))
		}
		notes = append(notes, note)
	}
	return s.Generation, notes, err
}
