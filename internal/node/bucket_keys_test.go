package node

import (
	"context"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/head"
)

// TestNewestKeysAreUsed: keys that come before the mount are used for it, and later ones by the volume.
func TestNewestKeysAreUsed(t *testing.T) {
	var none bucketKeys
	if err := none.replace(t.Context(), core.BucketKeys{ID: "a"}); !core.IsKind(err, core.Invalid) {
		t.Errorf("none were sent before: %v", err)
	}
	b := bucketKeys{newest: &core.BucketKeys{ID: "first"}}
	if err := b.replace(t.Context(), core.BucketKeys{ID: "second"}); err != nil {
		t.Fatal(err)
	}
	volume := &keyed{}
	if _, err := b.mount(func(k *core.BucketKeys) (head.Burst, error) { volume.keys = *k; return volume, nil }); err != nil || volume.keys.ID != "second" {
		t.Errorf("it is mounted with %q, %v", volume.keys.ID, err)
	}
	if err := b.replace(t.Context(), core.BucketKeys{ID: "third"}); err != nil || volume.keys.ID != "third" {
		t.Errorf("it uses %q, %v", volume.keys.ID, err)
	}
}

// keyed is a volume that is given keys.
type keyed struct {
	head.Burst
	keys core.BucketKeys
}

// UseKeys implements head.Burst.
func (v *keyed) UseKeys(_ context.Context, k core.BucketKeys) error { v.keys = k; return nil }
