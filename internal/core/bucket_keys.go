package core

import (
	"fmt"
	"log/slog"
	"time"
)

// BucketKeys are credentials for a bucket, and where they are valid. They are in memory only: no record has
// them, and they print as nothing.
type BucketKeys struct {
	ID      string    `json:"id"`
	Secret  string    `json:"secret"`
	Session string    `json:"session,omitempty"`
	Expires time.Time `json:"expires,omitzero"` // zero: they do not
	// Endpoint and Region are "" where the settings of the bucket have them.
	Endpoint string `json:"endpoint,omitempty"`
	Region   string `json:"region,omitempty"`
}

// String implements fmt.Stringer.
func (BucketKeys) String() string { return "(credentials)" }

// Format implements fmt.Formatter: no verb prints more.
func (k BucketKeys) Format(f fmt.State, _ rune) { BestEffort(fmt.Fprint(f, k.String())) }

// LogValue implements slog.LogValuer.
func (k BucketKeys) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Expired reports whether keys are no longer valid at a time.
func (k BucketKeys) Expired(now time.Time) bool { return !k.Expires.IsZero() && !now.Before(k.Expires) }

// Temporary reports whether keys expire, also where nobody knows when.
func (k BucketKeys) Temporary() bool { return k.Session != "" || !k.Expires.IsZero() }

// Same reports whether keys are the same ones.
func (k BucketKeys) Same(o BucketKeys) bool {
	expires := k.Expires.Equal(o.Expires)
	k.Expires, o.Expires = time.Time{}, time.Time{}
	return expires && k == o
}
