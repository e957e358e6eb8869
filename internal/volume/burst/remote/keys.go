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

// Found returns the credentials that this machine has for the bucket of a place.
func Found(ctx context.Context, p Place) (Keys, error) {
	k, err := s3client.Found(ctx, s3client.Settings{Bucket: p.Bucket, Endpoint: p.Endpoint, Region: p.Region, Profile: p.Profile})
	return Keys(k), err
}
