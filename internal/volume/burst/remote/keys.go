package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// UseKeys has requests from now on use other keys for the bucket, unless they alone have expired. Those of another
// server are refused: what was written for one is never sent to another.
func (s *S3) UseKeys(k core.BucketKeys) error {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.keys != nil && b.dial == nil && (b.keys.Same(k) || k.Expired(now) && !b.keys.Expired(now)) { // a client may have older ones
		return nil
	}
	if b.keys != nil && b.keys.Endpoint != k.Endpoint {
		return &core.Error{
			Kind: core.Invalid, Op: "use new credentials for", Object: b.place.Bucket, Err: fmt.Errorf("they are for the server %q, and those so far for %q", core.Printable(k.Endpoint, 200), core.Printable(b.keys.Endpoint, 200)),
			Remedy: "Set AWS_ENDPOINT_URL, or the endpoint of your profile, to what it was.",
		}
	}
	b.keys, b.dial, b.client = &k, nil, nil
	return nil
}

// UseRelay has requests from now on pass a relay; nil: they use what is found on this host.
func (s *S3) UseRelay(dial Dial) {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys, b.dial, b.client = nil, dial, nil
}

// Found returns the credentials that this machine has for the bucket of a place.
func Found(ctx context.Context, p Place) (core.BucketKeys, error) {
	return s3client.Found(ctx, s3client.Settings{Bucket: p.Bucket, Endpoint: p.Endpoint, Region: p.Region, Profile: p.Profile})
}
