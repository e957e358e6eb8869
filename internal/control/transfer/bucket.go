package transfer

import (
	"cmp"
	"context"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// bucketStore is a bucket in which a site's host stores trees itself, by requests that this machine signs, where it reaches
// the bucket. Else they pass through this machine, as all that is restored does.
type bucketStore struct {
	driver.Checkpoints
	s      *Site
	bucket driver.Bucket
	host   driver.DirectTransfer
	name   string // of the run
	place  string // names the bucket
}

// Keep implements driver.Checkpoints. Where the requests fail that the host has made itself, the tree is relayed.
func (b bucketStore) Keep(ctx context.Context, g driver.Generation, site string, from driver.Source) (driver.Manifest, bool, error) {
	t := from.(Tree)
	if b.s.Routes.unreached(b.host.Machine(), b.place) {
		return b.Checkpoints.Keep(ctx, g, site, from)
	}
	done, progress := int64(0), t.Keeping()
	var ours, theirs error // of this machine's answers, and of the host
	asked := false
	m, made, err := b.bucket.KeepBy(ctx, b.name, g, site, func(ctx context.Context, sign driver.SignObject) ([]byte, error) {
		raw, err := b.host.Upload(ctx, t.Remote, g, site, func(ctx context.Context, q driver.ObjectRequest) (driver.ObjectAnswer, error) {
			a, err := sign(ctx, q)
			asked, ours = true, cmp.Or(ours, err)
			if err == nil && q.Op == driver.StoreObject {
				done += q.Size
				progress(done)
			}
			return a, err
		})
		theirs = err
		return raw, err
	})
	own := asked && ours == nil && ctx.Err() == nil
	// A proxy may also have taken what it has not passed on.
	if failed := own && (theirs != nil && !isBroken(theirs) || theirs == nil && core.IsKind(err, core.Lost)); !failed && !core.IsKind(err, core.Unsupported) {
		if err == nil && made {
			b.s.RecordRoute(ctx, event.Route{From: b.s.Name, Direct: true})
		}
		return m, made, err
	}
	b.s.Routes.noteUnreached(b.host.Machine(), b.place)
	cause := event.CauseOf(err)
	b.s.RecordRoute(ctx, event.Route{From: b.s.Name, Cause: &cause})
	return b.Checkpoints.Keep(ctx, g, site, from)
}
