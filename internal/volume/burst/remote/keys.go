package remote

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// Keys are credentials for a bucket, which their user has sent. They are in memory only: no record has them, and they
// print as nothing.
type Keys struct {
	ID       string    `json:"id"`
	Secret   string    `json:"secret"`
	Session  string    `json:"session,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Endpoint string    `json:"endpoint,omitempty"`
	Region   string    `json:"region,omitempty"`
}

// hidden is what is printed of keys.
const hidden = "(credentials)"

// String implements fmt.Stringer.
func (Keys) String() string { return hidden }

// Format implements fmt.Formatter: no verb prints more.
func (Keys) Format(f fmt.State, _ rune) { core.BestEffort(fmt.Fprint(f, hidden)) }

// LogValue implements slog.LogValuer.
func (Keys) LogValue() slog.Value { return slog.StringValue(hidden) }

// same reports whether keys are the same ones.
func (k Keys) same(o Keys) bool {
	expires := k.Expires.Equal(o.Expires)
	k.Expires, o.Expires = time.Time{}, time.Time{}
	return expires && k == o
}

// UseKeys has requests from now on use other keys for the bucket. Those of another server are refused: what was
// written for one is never sent to another.
func (s *S3) UseKeys(k Keys) error {
	b := s.bucket
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.keys != nil && b.keys.same(k) {
		return nil
	}
	if b.keys != nil && b.keys.Endpoint != k.Endpoint {
		return &core.Error{
			Kind: core.Invalid, Op: "use new credentials for", Object: b.place.Bucket, Err: fmt.Errorf("they are for the server %q, and those so far for %q", core.Printable(k.Endpoint, 200), core.Printable(b.keys.Endpoint, 200)),
			Remedy: "Set AWS_ENDPOINT_URL, or the endpoint of your profile, to what it was.",
		}
	}
	b.keys, b.client = &k, nil
	return nil
}

// Found returns the credentials that this machine has for the bucket of a place.
func Found(ctx context.Context, p Place) (Keys, error) {
	k, err := s3client.Found(ctx, s3client.Settings{Bucket: p.Bucket, Endpoint: p.Endpoint, Region: p.Region, Profile: p.Profile})
	return Keys(k), err
}
