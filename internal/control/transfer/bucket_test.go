package transfer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/state/event"
)

// uploadingHost asks for one signed request, if it answers, and then fails.
type uploadingHost struct {
	driver.DirectTransfer
	silent bool
	fails  error
	tries  int
}

func (h *uploadingHost) Machine() string { return "h" }

func (h *uploadingHost) Upload(ctx context.Context, _ string, _ driver.Generation, _ string, sign driver.SignObject) ([]byte, error) {
	h.tries++
	if !h.silent {
		if _, err := sign(ctx, driver.ObjectRequest{Op: driver.ListObjects}); err != nil {
			return nil, err
		}
	}
	return nil, h.fails
}

// signingBucket signs, and looks at what a host has stored.
type signingBucket struct{ signs, finds error }

func (b signingBucket) KeepBy(ctx context.Context, _ string, _ driver.Generation, _ string, upload driver.Upload) (driver.Manifest, bool, error) {
	_, err := upload(ctx, func(context.Context, driver.ObjectRequest) (driver.ObjectAnswer, error) {
		return driver.ObjectAnswer{}, b.signs
	})
	if err == nil {
		err = b.finds
	}
	return driver.Manifest{}, err == nil, err
}

// TestTreesOfHostsWithoutABucketAreRelayed, and such a host tries again after some minutes, or with another bucket.
func TestTreesOfHostsWithoutABucketAreRelayed(t *testing.T) {
	answers := &core.Error{Kind: core.Transient, Op: "the bucket answers with status 503"}
	lost := &core.Error{Kind: core.Transient, Err: &core.Error{Kind: core.Lost, Err: errors.New("connection reset")}}
	for name, c := range map[string]struct {
		host   uploadingHost
		bucket signingBucket
		kept   bool
		ways   string // of two trees at once, one after some minutes, and one to another bucket
		tries  int
	}{
		"it stores trees":           {kept: true, tries: 4},
		"it reaches none":           {uploadingHost{fails: &core.Error{Kind: core.Unsupported}}, signingBucket{}, true, "here here here here", 3},
		"a proxy answers":           {uploadingHost{fails: answers}, signingBucket{}, true, "here here here here", 3},
		"a proxy keeps all":         {bucket: signingBucket{finds: &core.Error{Kind: core.Lost}}, kept: true, ways: "here here here here", tries: 3},
		"the connection breaks":     {host: uploadingHost{fails: lost}, tries: 4},
		"it does not answer":        {host: uploadingHost{silent: true, fails: answers}, tries: 4},
		"nothing can be signed":     {bucket: signingBucket{signs: answers}, tries: 4},
		"the manifest cannot be":    {bucket: signingBucket{finds: answers}, tries: 4},
		"no such request is signed": {uploadingHost{}, signingBucket{signs: &core.Error{Kind: core.Unsupported}}, true, "here here here here", 3},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var routes []event.Route
				store, end := &fakeStore{}, newSite("a", &routes)
				for i := range 4 {
					b := bucketStore{store, end, c.bucket, &c.host, "r", "s3://x"}
					switch i {
					case 2:
						time.Sleep(unreachedTime)
					case 3:
						b.place = "s3://y"
					}
					if _, made, err := b.Keep(t.Context(), driver.Generation{Attempt: i}, "a", Tree{Site: end}); made != c.kept || (err == nil) != c.kept {
						t.Errorf("%v, %v", made, err)
					}
				}
				if got := strings.Join(store.ways, " "); got != c.ways || c.host.tries != c.tries {
					t.Errorf("went %q after %d tries, want %q after %d", got, c.host.tries, c.ways, c.tries)
				}
			})
		})
	}
}
