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
	turn chan struct{} // who has put something in replaces them

	mu     sync.Mutex       // for moments: a mount may wait for newer ones
	newest *core.BucketKeys // nil: none were sent
	volume head.Burst       // nil: it is not mounted yet
}

func newBucketKeys(sent *core.BucketKeys) *bucketKeys {
	return &bucketKeys{turn: make(chan struct{}, 1), newest: sent}
}

// now are the newest ones; nil: none were sent.
func (b *bucketKeys) now() *core.BucketKeys {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.newest
}

// expire reports whether they do, some time.
func (b *bucketKeys) expire() bool {
	k := b.now()
	return k != nil && k.Temporary()
}

// mount mounts the burst buffer. keys are the newest ones at each time, also while it is mounted; nil: none were sent.
func (b *bucketKeys) mount(do func(keys func() *core.BucketKeys) (head.Burst, error)) (head.Burst, error) {
	keys := b.now
	if b.now() == nil {
		keys = nil
	}
	v, err := do(keys)
	if err == nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.volume = v
	}
	return v, err
}

// replace has the burst buffer use other keys from now on, once it has accepted them.
func (b *bucketKeys) replace(ctx context.Context, k core.BucketKeys) error {
	select {
	case b.turn <- struct{}{}:
		defer func() { <-b.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	volume, err := b.early(k)
	if err != nil || volume == nil {
		return err
	}
	if err := volume.UseKeys(ctx, k); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.newest = &k
	return nil
}

// early has keys be the newest ones where the volume is not mounted yet; else it returns the volume, which is asked.
func (b *bucketKeys) early(k core.BucketKeys) (head.Burst, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	refused := func(why, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "use credentials for", Object: "the burst buffer", Err: errors.New(why), Remedy: remedy}
	}
	switch {
	case b.newest == nil:
		return nil, refused("none were sent when the nodes were started", core.RemedyFault)
	case b.newest.Endpoint != k.Endpoint:
		return nil, refused("they are for another server than those so far", "Set AWS_ENDPOINT_URL, or the endpoint of your profile, to what it was.")
	case b.volume == nil:
		b.newest = &k
	}
	return b.volume, nil
}
