package catalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"time"

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
	"github.com/bee-hpc/bee/internal/volume/burst/remote/relay"
)

// burstVolume mounts the burst buffer of an attempt on this host.
func burstVolume(ctx context.Context, b plan.Burst, of core.Owner, sent func() *core.BucketKeys, relay func(ctx context.Context) (io.ReadWriteCloser, error)) (head.Burst, error) {
	s, err := spec.ParseStore(b.Remote)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "use remote", Object: b.Remote, Err: err}
	}
	if err := mountable(ctx, b.Remote); err != nil {
		return nil, err
	}
	keys, relay, err := bucketAccess(ctx, remote.Place(s), b.Credentials, sent, relay)
	if err != nil {
		return nil, err
	}
	binary, err := os.Executable()
	if err != nil {
		return nil, err
	}
	o := mount.Options{
		Keys: keys, Relay: relay,
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

// mostRelay bounds the wait for the submitting machine, which connects once it sees that the node runs.
const mostRelay = 10 * time.Minute

// bucketAccess returns how a burst buffer reaches its bucket: by keys that were sent, by a relay, or, where both are
// nil, by what this host has.
func bucketAccess(ctx context.Context, at remote.Place, from string, sent func() *core.BucketKeys, relay func(ctx context.Context) (io.ReadWriteCloser, error)) (func() *core.BucketKeys, func(ctx context.Context) (io.ReadWriteCloser, error), error) {
	if sent != nil || at.Bucket == "" {
		return sent, nil, nil
	}
	var none error
	if from != spec.CredentialsRelay {
		if _, none = remote.Found(ctx, at); none == nil {
			return nil, nil, nil
		}
		none = fmt.Errorf("node 0's host has no credentials for it: %w", none)
	}
	if from == spec.CredentialsSite {
		return nil, nil, &core.Error{
			Kind: core.Unsupported, Op: "use the bucket", Object: at.Bucket, Err: none,
			Remedy: "Set credentials up there, as for AWS's tools. With `credentials: relay` in `volume:`, requests pass this machine, which has yours.",
		}
	}
	most, cancel := context.WithTimeout(ctx, mostRelay)
	defer cancel()
	conn, err := relay(most)
	if err != nil {
		return nil, nil, &core.Error{
			Kind: core.Unsupported, Op: "use the bucket", Object: at.Bucket, Err: errors.Join(none, err),
			Remedy: "Its requests pass the submitting machine, where a controller of the run has to be: `bee supervise`. Or set credentials up on the site, as for AWS's tools.",
		}
	}
	return nil, relay, conn.Close()
}

// RelayBucket answers requests of a site for a bucket, for what the remote of its burst buffer names and nothing else.
// log has what is refused.
func RelayBucket(ctx context.Context, name string, l net.Listener, log *slog.Logger) error {
	s, err := spec.ParseStore(name)
	if err != nil {
		return err
	}
	return relay.New(remote.Place(s), log).Serve(ctx, l)
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
