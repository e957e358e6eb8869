package remote

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// bucket returns a real server that this process finds, and a client of it.
func bucket(t *testing.T) (*s3server.Server, *s3.Client) {
	t.Helper()
	server := s3server.StartFound(t)
	client, err := s3client.New(t.Context(), s3client.Settings{Bucket: server.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	return server, client
}

// TestObjects of a real server.
func TestObjects(t *testing.T) {
	server, client := bucket(t)
	key := "data/era 5/t2m+é.nc"
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &server.Bucket, Key: &key, Body: bytes.NewReader(content)}); err != nil {
		t.Fatal(err)
	}
	f := File{Bucket: server.Bucket, Key: key}
	for _, sum := range []string{"", digest(content)} {
		f.SHA256 = sum
		if raw, err := fetched(t, f); err != nil || !bytes.Equal(raw, content) {
			t.Errorf("%d bytes, %v", len(raw), err)
		}
	}
	f.SHA256 = digest([]byte("another"))
	if _, err := fetched(t, f); !core.IsKind(err, core.Invalid) {
		t.Errorf("another digest: %v", err)
	}
	f.Key, f.SHA256 = "none", ""
	if _, err := fetched(t, f); !core.IsKind(err, core.NotFound) || core.Remedy(err) == "" {
		t.Errorf("no such object: %v", err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "not-the-one")
	if _, err := fetched(t, f); !core.IsKind(err, core.Permanent) || core.Remedy(err) == "" || strings.Contains(err.Error(), "not-the-one") {
		t.Errorf("another secret: %v", err)
	}
}

// breaksTwice serves an object whose connection breaks twice. The third request has to continue the same version.
func breaksTwice(n int, w http.ResponseWriter, r *http.Request) {
	if n <= 2 {
		cut(w, r, 50_000)
	}
	if r.Header.Get("Range") == "" || r.Header.Get("If-Match") != `"one"` {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	whole(w, r)
}

// bucketServer returns the address of a server without TLS.
func bucketServer(t *testing.T, serve func(n int, w http.ResponseWriter, r *http.Request)) string {
	t.Helper()
	s := httptest.NewServer(numbered(serve))
	t.Cleanup(s.Close)
	return s.URL
}

// TestBucketsThatLie or break off, without a digest of the object.
func TestBucketsThatLie(t *testing.T) {
	for key, value := range map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"} {
		t.Setenv(key, value)
	}
	for name, c := range map[string]struct {
		serve func(n int, w http.ResponseWriter, r *http.Request)
		kind  core.Kind
		comes bool
	}{
		"a connection that breaks": {serve: breaksTwice, comes: true},
		"another version meanwhile": {serve: func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				w.Header().Set("ETag", `"zero"`)
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				w.Write(bytes.Repeat([]byte{'x'}, 50_000))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			whole(w, r)
		}, comes: true},
		"no length": {serve: func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			io.WriteString(w, "evil")
		}, kind: core.Permanent},
		"a way elsewhere": {serve: func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, kind: core.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := fetched(t, File{Bucket: "bucket", Key: "key", Endpoint: bucketServer(t, c.serve)})
			if c.comes && (err != nil || !bytes.Equal(raw, content)) || !c.comes && !core.IsKind(err, c.kind) {
				t.Errorf("%d bytes, %v, kind %v", len(raw), err, core.KindOf(err))
			}
		})
	}
	if _, err := fetched(t, File{Bucket: "bucket", Key: "key", Endpoint: "http://169.254.169.254"}); !core.IsKind(err, core.Permanent) {
		t.Errorf("metadata as an endpoint: %v, kind %v", err, core.KindOf(err))
	}
}
