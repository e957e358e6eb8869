package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// ErrKeys is about keys that a bucket refuses.
var ErrKeys = errors.New("the bucket refuses these credentials")

// mostTry bounds the wait for a bucket's answer about other keys.
const mostTry = 5 * time.Second

// UseKeys has requests from now on use other keys for the bucket, and reports whether they are other ones. Keys that
// have not expired stay where the new ones have, where they are only spare, and where the bucket refuses them: that is
// ErrKeys. Those of another server are refused: what was written for one is never sent to another. Callers do so one
// after the other.
func (s *S3) UseKeys(ctx context.Context, k core.BucketKeys, spare bool) (changed bool, err error) {
	b := s.bucket
	b.mu.Lock()
	had, relayed := b.keys, b.dial != nil
	b.mu.Unlock()
	var client *s3.Client
	if had != nil {
		if err := SameServer(b.place, *had, k); err != nil {
			return false, err
		}
		now := time.Now()
		good := !relayed && !had.Expired(now)
		switch {
		case !relayed && had.Same(k), good && spare, k.Expired(now) && (good || spare): // a client may have older ones
			return false, nil
		case good:
			if client, err = b.accepts(ctx, k); err != nil {
				return false, err
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.keys, b.dial, b.client = &k, nil, client
	return true, nil
}

// SameServer refuses keys of another server than those so far.
func SameServer(at Place, had, k core.BucketKeys) error {
	if had.Endpoint == k.Endpoint {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "use new credentials for", Object: at.Bucket, Err: fmt.Errorf("they are for the server %q, and those so far for %q", core.Printable(k.Endpoint, 200), core.Printable(had.Endpoint, 200)),
		Remedy: "Set AWS_ENDPOINT_URL, or the endpoint of your profile, to what it was.",
	}
}

// accepts returns a client with other keys, or ErrKeys where the bucket refuses to list the place with them. One that
// does not answer refuses nothing.
func (b *bucket) accepts(ctx context.Context, k core.BucketKeys) (*s3.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, mostTry)
	defer cancel()
	defer context.AfterFunc(b.ctx, cancel)()
	settings := b.settings()
	settings.Keys = &k
	client, err := s3client.New(ctx, settings)
	if err != nil {
		return nil, err
	}
	err = b.listOne(ctx, client)
	switch s3client.Status(err) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnauthorized:
		return nil, fmt.Errorf("%w: %w", ErrKeys, s3client.Explain("use", b.place.Bucket, err))
	}
	return client, nil
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
