package node

import (
	"context"
	"errors"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/head"
)

// bucketKeys are the user's credentials that were sent for the bucket of a burst buffer.
type bucketKeys struct {
	mu     sync.Mutex
	newest *core.BucketKeys // nil: none were sent
	volume head.Burst       // nil: it is not mounted yet
}

// mount mounts the burst buffer with the newest keys. Those that come meanwhile wait.
func (b *bucketKeys) mount(do func(*core.BucketKeys) (head.Burst, error)) (head.Burst, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, err := do(b.newest)
	if err == nil {
		b.volume = v
	}
	return v, err
}

// replace has the burst buffer use other keys from now on.
func (b *bucketKeys) replace(ctx context.Context, k core.BucketKeys) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.newest == nil {
		return &core.Error{Kind: core.Invalid, Op: "use credentials for", Object: "the burst buffer", Err: errors.New("none were sent when the nodes were started"), Remedy: core.RemedyFault}
	}
	b.newest = &k
	if b.volume == nil {
		return nil
	}
	return b.volume.UseKeys(ctx, k)
}
