package remote

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// TestOtherKeys replace those so far, unless the bucket refuses them while those so far are good.
func TestOtherKeys(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Authorization"), "Credential=other/") {
			w.WriteHeader(http.StatusForbidden)
			io.WriteString(w, "<Error><Code>AccessDenied</Code></Error>")
			return
		}
		io.WriteString(w, "<ListBucketResult/>")
	}))
	defer server.Close()
	keys := func(id string, valid time.Duration) core.BucketKeys {
		k := core.BucketKeys{ID: id, Secret: "secret", Endpoint: server.URL, Region: "us-east-1"}
		if valid != 0 {
			k.Expires = time.Now().Add(valid)
		}
		return k
	}
	elsewhere := keys("own", 0)
	elsewhere.Endpoint += "1"
	away := keys("other", 0)
	for name, c := range map[string]struct {
		had   core.BucketKeys
		now   core.BucketKeys
		spare bool
		used  bool
		err   error
		kind  core.Kind
	}{
		"good ones":               {had: keys("first", time.Hour), now: keys("own", time.Hour), used: true},
		"another account's":       {had: keys("first", 0), now: away, err: ErrKeys},
		"another's, once expired": {had: keys("first", -time.Hour), now: away, used: true},
		"the same":                {had: away, now: away},
		"expired ones":            {had: keys("first", time.Hour), now: keys("own", -time.Hour)},
		"spare ones":              {had: keys("first", time.Hour), now: keys("own", time.Hour), spare: true},
		"needed spare ones":       {had: keys("first", -time.Hour), now: keys("own", time.Hour), spare: true, used: true},
		"expired spare ones":      {had: keys("first", -time.Hour), now: keys("own", -2*time.Hour), spare: true},
		"another server's":        {had: keys("first", -time.Hour), now: elsewhere, kind: core.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			s := OpenS3(Place{Bucket: "bucket", Prefix: "run7"}, "test", t.TempDir(), nil)
			defer s.Close()
			s.bucket.keys = &c.had
			changed, err := s.UseKeys(t.Context(), c.now, c.spare)
			if changed != c.used || (err != nil) != (c.err != nil || c.kind != 0) || c.err != nil && !errors.Is(err, c.err) || core.KindOf(err) != c.kind {
				t.Errorf("changed %v, %v", changed, err)
			}
			if used := s.bucket.keys.ID == c.now.ID && s.bucket.keys.Expires.Equal(c.now.Expires); used != (c.used || c.had.Same(c.now)) {
				t.Errorf("it uses %q", s.bucket.keys.ID)
			}
		})
	}
}

// TestKeysForABucketThatIsAway: nobody can say that these are refused.
func TestKeysForABucketThatIsAway(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	s := OpenS3(Place{Bucket: "bucket"}, "test", t.TempDir(), nil)
	defer s.Close()
	s.bucket.keys = &core.BucketKeys{ID: "first", Secret: "secret", Endpoint: server.URL, Region: "us-east-1"}
	now := *s.bucket.keys
	now.ID = "own"
	if changed, err := s.UseKeys(t.Context(), now, false); !changed || err != nil || s.bucket.keys.ID != "own" {
		t.Errorf("changed %v, %v", changed, err)
	}
}
