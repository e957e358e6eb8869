package node

import (
	"context"
	"errors"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/head"
)

// TestNewestKeysAreUsed: keys that come before or during the mount are used for it, and later ones by the volume, if it
// accepts them.
func TestNewestKeysAreUsed(t *testing.T) {
	if err := newBucketKeys(nil).replace(t.Context(), core.BucketKeys{ID: "a"}); !core.IsKind(err, core.Invalid) {
		t.Errorf("none were sent before: %v", err)
	}
	b := newBucketKeys(&core.BucketKeys{ID: "first"})
	use := func(id string) {
		t.Helper()
		if err := b.replace(t.Context(), core.BucketKeys{ID: id}); err != nil {
			t.Error(err)
		}
	}
	use("second")
	if err := b.replace(t.Context(), core.BucketKeys{ID: "x", Endpoint: "https://elsewhere.example.org"}); !core.IsKind(err, core.Invalid) || b.now().ID != "second" {
		t.Errorf("for another server: %v, and then it has %q", err, b.now().ID)
	}
	volume := &keyed{}
	_, err := b.mount(func(keys func() *core.BucketKeys) (head.Burst, error) {
		if id := keys().ID; id != "second" {
			t.Errorf("it is mounted with %q", id)
		}
		if use("third"); keys().ID != "third" {
			t.Errorf("while it is mounted, it has %q", keys().ID)
		}
		return volume, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if use("fourth"); volume.keys.ID != "fourth" || b.now().ID != "fourth" {
		t.Errorf("it uses %q", volume.keys.ID)
	}
	volume.refuses = errors.New("the bucket refuses them")
	if err := b.replace(t.Context(), core.BucketKeys{ID: "bad"}); err == nil || b.now().ID != "fourth" {
		t.Errorf("refused: %v, and then it has %q", err, b.now().ID)
	}
	b.turn <- struct{}{} // others are sent meanwhile
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.replace(over, core.BucketKeys{ID: "late"}); !errors.Is(err, context.Canceled) {
		t.Errorf("nobody waits for it any more: %v", err)
	}
	for want, k := range map[bool]core.BucketKeys{false: {ID: "a"}, true: {ID: "a", Session: "s"}} {
		if newBucketKeys(&k).expire() != want {
			t.Errorf("expire: %v", !want)
		}
	}
}

// keyed is a volume that is given keys.
type keyed struct {
	head.Burst
	keys    core.BucketKeys
	refuses error
}

// UseKeys implements head.Burst.
func (v *keyed) UseKeys(_ context.Context, k core.BucketKeys) error {
	if v.refuses == nil {
		v.keys = k
	}
	return v.refuses
}
