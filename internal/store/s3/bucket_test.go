package s3

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

func open(t testing.TB, s *s3server.Server, prefix string) *S3 {
	t.Helper()
	objects, err := NewS3(t.Context(), Settings{Bucket: s.Bucket, Prefix: prefix})
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func TestABucket(t *testing.T) {
	server, n := s3server.StartFound(t), 0
	drivertest.StoreSuite{New: func(t testing.TB) (driver.Store, string) {
		n++
		prefix := fmt.Sprintf("test/%d", n)
		dir := filepath.Join(server.Dir, prefix)
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return New("s3://"+server.Bucket+"/"+prefix, open(t, server, prefix)), dir
	}}.Run(t)
}

// TestErrorsOfABucketSayWhatToDo, and nothing secret.
func TestErrorsOfABucketSayWhatToDo(t *testing.T) {
	for _, c := range []struct {
		name string
		harm func(*testing.T, *s3server.Server, *Settings)
		kind core.Kind
		says string
	}{
		{"no such bucket", func(_ *testing.T, _ *s3server.Server, s *Settings) { s.Bucket = "another" }, core.Invalid, "Make the bucket"},
		{"wrong key", func(t *testing.T, _ *s3server.Server, _ *Settings) { t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-one") }, core.Permanent, "AWS_SECRET_ACCESS_KEY"},
		{"no key", func(t *testing.T, _ *s3server.Server, _ *Settings) {
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("HOME", t.TempDir())
		}, core.Permanent, "No credentials"},
		{"nobody there", func(_ *testing.T, server *s3server.Server, _ *Settings) { server.Stop() }, core.Transient, "Does the endpoint answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := s3server.StartFound(t)
			s := Settings{Bucket: server.Bucket}
			c.harm(t, server, &s)
			objects, err := NewS3(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			err = objects.Put(t.Context(), "x", []byte("y"))
			if !core.IsKind(err, c.kind) || !strings.Contains(core.Remedy(err), c.says) {
				t.Errorf("got %v (kind %v, remedy %q)", err, core.KindOf(err), core.Remedy(err))
			}
			if strings.Contains(err.Error(), s3server.Secret) || strings.Contains(err.Error(), "not-the-one") {
				t.Errorf("it tells a secret: %v", err)
			}
		})
	}
}

func BenchmarkABucket(b *testing.B) {
	server := s3server.StartFound(b)
	drivertest.BenchStore(b, New("s3://"+server.Bucket, open(b, server, "")))
	stored := int64(0)
	for _, size := range drivertest.Files(b, server.Dir) {
		stored += size
	}
	b.ReportMetric(float64(stored)/(1<<30), "GiB-stored")
}
