package plan

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// BucketKeys are credentials for a bucket, and where they are valid. They print as nothing.
type BucketKeys struct {
	ID       string    `json:"id"`
	Secret   string    `json:"secret"`
	Session  string    `json:"session,omitempty"`
	Expires  time.Time `json:"expires,omitzero"`
	Endpoint string    `json:"endpoint,omitempty"`
	Region   string    `json:"region,omitempty"`
}

// String implements fmt.Stringer.
func (BucketKeys) String() string { return "(credentials)" }

// Format implements fmt.Formatter: no verb prints more.
func (k BucketKeys) Format(f fmt.State, _ rune) { core.BestEffort(fmt.Fprint(f, k.String())) }

// LogValue implements slog.LogValuer.
func (k BucketKeys) LogValue() slog.Value { return slog.StringValue(k.String()) }
