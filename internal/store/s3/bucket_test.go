package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/testkit"
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
	}{
		{"no such bucket", func(_ *testing.T, _ *s3server.Server, s *Settings) { s.Bucket = "another" }, core.Invalid},
		{"wrong key", func(t *testing.T, _ *s3server.Server, _ *Settings) { t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-one") }, core.Permanent},
		{"no key", func(t *testing.T, _ *s3server.Server, _ *Settings) {
			t.Setenv("AWS_SECRET_ACCESS_KEY", "")
			t.Setenv("AWS_ACCESS_KEY_ID", "")
			t.Setenv("HOME", t.TempDir())
		}, core.Permanent},
		{"no server", func(_ *testing.T, server *s3server.Server, _ *Settings) { server.Stop() }, core.Transient},
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
			if !core.IsKind(err, c.kind) {
				t.Errorf("got %v (kind %v, remedy %q)", err, core.KindOf(err), core.Remedy(err))
			}
			testkit.Wording(t, "remedy", core.Remedy(err), os.Getenv("AWS_ENDPOINT_URL"), "URL")
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

// directory is a directory whose files are the objects, so that packs are compared with the
// plain files of a store in a directory, on the same disk and without a server.
type directory string

func (d directory) at(name string) string { return filepath.Join(string(d), name) }

func (d directory) Put(_ context.Context, name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(d.at(name)), 0o700); err != nil {
		return err
	}
	return fsutil.WriteFile(d.at(name), data, 0o600)
}

func (d directory) Get(_ context.Context, name string, from, length int64) ([]byte, error) {
	f, err := os.Open(d.at(name))
	if err != nil {
		return nil, &core.Error{Kind: core.NotFound, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if from < 0 {
		from = max(0, info.Size()+from)
	}
	if length == 0 {
		length = info.Size()
	}
	return io.ReadAll(io.NewSectionReader(f, from, length))
}

func (d directory) List(_ context.Context, prefix string) (map[string]int64, error) {
	found := map[string]int64{}
	err := filepath.WalkDir(string(d), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(string(d), path)
		if err == nil && strings.HasPrefix(name, prefix) {
			var info fs.FileInfo
			if info, err = e.Info(); err == nil {
				found[name] = info.Size()
			}
		}
		return err
	})
	return found, err
}

func (d directory) Tops(context.Context) (names []string, err error) {
	entries, err := os.ReadDir(string(d))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (d directory) Sign(context.Context, driver.ObjectOp, string, int64) (string, error) {
	return "", errors.New("it is no server")
}

func (d directory) Here() bool { return true }

func (d directory) Delete(_ context.Context, names []string) (err error) {
	for _, name := range names {
		err = errors.Join(err, os.RemoveAll(d.at(name)))
	}
	return err
}

// BenchmarkPacksInADirectory is to be compared with BenchmarkADirectory of plain files.
func BenchmarkPacksInADirectory(b *testing.B) {
	dir := b.TempDir()
	drivertest.BenchStore(b, New(dir, directory(dir)))
}
