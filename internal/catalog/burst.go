package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/mountns"
	"github.com/bee-hpc/bee/internal/node"
	"github.com/bee-hpc/bee/internal/node/head"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/leftover"
	"github.com/bee-hpc/bee/internal/volume/burst/mount"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// burstVolume mounts the burst buffer of an attempt on this host.
func burstVolume(ctx context.Context, b plan.Burst, of core.Owner, sent *core.BucketKeys) (head.Burst, error) {
	s, err := spec.ParseStore(b.Remote)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use remote", Object: b.Remote, Err: err}
	}
	if err := mountable(ctx, b.Remote); err != nil {
		return nil, err
	}
	keys, err := bucketKeys(ctx, remote.Place(s), sent)
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := mount.Options{
		Keys:    keys,
		Volumes: b.Records, Remote: b.Remote, At: remote.Place(s), Dir: filepath.Join(filepath.Dir(b.Records), "mounts", url.PathEscape(of.Run)),
		Room: b.Disk, Rate: b.Rate, Protect: b.Protect, Everyone: os.Geteuid() == 0, Private: mountns.Own(), Alone: b.Alone, Shared: b.Shared, Binary: binary, Owner: of,
	}
	if b.Checkpoints {
		o.Run, o.Globs, o.Number = of.Run, b.Globs, b.Number
	}
	a, err := mount.Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	return attemptVolume{a}, nil
}

// burstBuffers finds what burst buffers have left on the hosts of a site.
func burstBuffers(base string) driver.BurstBuffers {
	binary, err := os.Executable()
	if err != nil {
		return nil
	}
	return leftover.Site{Dir: filepath.Join(base, plan.SiteBursts), Binary: binary}
}

// bucketKeys returns the credentials that were sent for a bucket. nil: this host has some, or needs none.
func bucketKeys(ctx context.Context, at remote.Place, sent *core.BucketKeys) (*core.BucketKeys, error) {
	if sent != nil || at.Bucket == "" {
		return sent, nil
	}
	if _, err := remote.Found(ctx, at); err != nil {
		return nil, &core.Error{
			Kind: core.Unsupported, Op: "use the bucket", Object: at.Bucket, Err: fmt.Errorf("node 0's host has no credentials for it: %w", err),
			Remedy: "Set credentials up there, as for AWS's tools. With `credentials: send` in `volume:`, yours are sent, and the staff of the site could read them.",
		}
	}
	return nil, nil
}

// BucketKeys finds the user's credentials for the bucket that a remote names.
func BucketKeys(ctx context.Context, name string) (core.BucketKeys, error) {
	s, err := spec.ParseStore(name)
	if err != nil {
		return core.BucketKeys{}, err
	}
	return remote.Found(ctx, remote.Place(s))
}

// mountable refuses a host that lacks what its user needs for a mount.
func mountable(ctx context.Context, remote string) error {
	needs := mount.NeedsOfRun(ctx)
	if needs == "" {
		return nil
	}
	return &core.Error{Kind: core.Unsupported, Op: "mount the volume of", Object: remote, Err: errors.New("you cannot mount anything on this host"), Remedy: needs}
}

// burstAfar mounts on this host the burst buffer of an attempt whose I/O process is on the head's.
func burstAfar(ctx context.Context, b plan.Burst, of core.Owner, rank int, id string, dial func(ctx context.Context) (io.ReadWriteCloser, error)) (node.BurstClient, error) {
	if err := mountable(ctx, b.Remote); err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	base, name := filepath.Dir(b.Records), fmt.Sprintf("%s-%d", url.PathEscape(of.Run), rank) // hosts may share it
	a, err := mount.BeginAfar(ctx, mount.AfarOptions{
		ID: id, Remote: b.Remote, Owner: of, Record: filepath.Join(base, "clients", name), Dir: filepath.Join(base, "mounts", name), Everyone: os.Geteuid() == 0, Private: mountns.Own(), Binary: binary, Dial: dial,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// attemptVolume is the burst buffer of an attempt, as its node uses it.
type attemptVolume struct{ *mount.Attempt }

// Prefetch implements head.Burst.
func (a attemptVolume) Prefetch(ctx context.Context, globs []string) (head.BurstPrefetched, error) {
	p, err := a.Attempt.Prefetch(ctx, globs)
	return head.BurstPrefetched(p), err
}

// Refused implements head.Burst.
func (a attemptVolume) Refused(ctx context.Context) (r head.BurstRefusal, err error) {
	s, err := a.Status(ctx)
	if err == nil && s.Refused != nil {
		r = head.BurstRefusal{Reason: string(s.Refused.Reason), Err: burst.Refusal(s)}
	}
	return r, err
}

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
