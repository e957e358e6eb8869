package remote

import (
	"bytes"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// TestSignedObjects are fetched from a real server without credentials, in the version that was
// wanted, and no other object is.
func TestSignedObjects(t *testing.T) {
	server, client := bucket(t)
	key, other := "data/era 5/t2m+\u00e9.nc", "data/other"
	put := func(key string, data []byte) {
		t.Helper()
		if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &server.Bucket, Key: &key, Body: bytes.NewReader(data)}); err != nil {
			t.Fatal(err)
		}
	}
	put(key, content)
	put(other, []byte("secret"))
	here := File{Bucket: server.Bucket, Key: key}
	away, err := Away(t.Context(), here)
	if !core.IsKind(err, core.Unsupported) || away.Tag == "" || away.String() != here.String() {
		t.Fatalf("of a server on this machine: %+v, %v", away, err)
	}
	for _, secret := range []string{s3server.Secret} {
		if strings.Contains(away.URL, secret) {
			t.Error("the URL has the secret")
		}
	}
	if _, err := fetched(t, away); !core.IsKind(err, core.Permanent) || strings.Contains(err.Error(), "Signature") {
		t.Errorf("from the loopback of another machine: %v", err)
	}
	away.Away = false // this is that machine
	dir := t.TempDir()
	outside := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	part, to := filepath.Join("downloads", "x", "file"), filepath.Join("volume", "in", "t2m.nc")
	if _, err := quick().FetchAway(t.Context(), away, dir, part, filepath.Join("link", "t2m.nc"), nil); err == nil {
		t.Error("a link of a job was followed")
	}
	if list, err := os.ReadDir(outside); err != nil || len(list) > 0 {
		t.Errorf("behind the link: %v, %v", list, err)
	}
	if got, err := quick().FetchAway(t.Context(), away, dir, part, to, nil); err != nil || got.Tag != away.Tag || got.Size != int64(len(content)) {
		t.Fatalf("%+v, %v", got, err)
	}
	if raw, err := os.ReadFile(filepath.Join(dir, to)); err != nil || !bytes.Equal(raw, content) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if _, err := os.Stat(filepath.Join(dir, filepath.Dir(part))); !os.IsNotExist(err) {
		t.Errorf("something is left: %v", err)
	}
	u, err := url.Parse(away.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.Path, u.RawPath = "/"+server.Bucket+"/"+other, ""
	elsewhere := away
	elsewhere.URL, elsewhere.Tag = u.String(), ""
	if raw, err := fetched(t, elsewhere); !core.IsKind(err, core.Permanent) || strings.Contains(err.Error(), "Signature=") {
		t.Errorf("another object by the same signature: %q, %v", raw, err)
	}
	put(key, []byte("another version"))
	for name, f := range map[string]File{"signed": away, "with credentials": {Bucket: server.Bucket, Key: key, Tag: away.Tag}} {
		if raw, err := fetched(t, f); !core.IsKind(err, core.Permanent) || core.Remedy(err) == "" || strings.Contains(err.Error(), "Signature") {
			t.Errorf("%s, of another version: %q, %v", name, raw, err)
		}
	}
}

// TestBucketsOfSignedURLs lead nowhere, send no more than there is room for, and may break off.
func TestBucketsOfSignedURLs(t *testing.T) {
	for name, c := range map[string]struct {
		serve func(n int, w http.ResponseWriter, r *http.Request)
		most  int64
		comes bool
	}{
		"a connection that breaks": {serve: breaksTwice, comes: true},
		"a way elsewhere": {serve: func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://example.org/", http.StatusTemporaryRedirect)
		}},
		"more than there is room for": {serve: func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r) }, most: 1000},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := fetched(t, File{URL: bucketServer(t, c.serve) + "/b/k?X-Amz-Signature=s", Name: "s3://b/k", Signed: true, Most: c.most})
			if c.comes && (err != nil || !bytes.Equal(raw, content)) || !c.comes && (!core.IsKind(err, core.Permanent) || strings.Contains(err.Error(), "Amz")) {
				t.Errorf("%d bytes, %v", len(raw), err)
			}
		})
	}
	if _, err := fetched(t, File{URL: "http://example.org/f", SHA256: digest(content)}); !core.IsKind(err, core.Invalid) {
		t.Errorf("http without a signature: %v", err)
	}
	if _, err := fetched(t, File{URL: "http://169.254.169.254/f", Name: "s3://b/k", Signed: true, Away: true}); !core.IsKind(err, core.Permanent) {
		t.Errorf("the metadata of a cloud: %v", err)
	}
}

// TestVersionsOnRecord are those that can be sent to a server again.
func TestVersionsOnRecord(t *testing.T) {
	to := filepath.Join(t.TempDir(), "file")
	for _, tag := range []string{"", "W/\"weak\"", "\"two\nlines\"", "\"in\"side\"", "bare", `"` + strings.Repeat("x", 2000) + `"`} {
		if err := Want(to, tag); err != nil || Wanted(to) != "" {
			t.Errorf("%.20q: %v, recorded %q", tag, err, Wanted(to))
		}
	}
	if err := Want(to, `"one"`); err != nil || Wanted(to) != `"one"` {
		t.Errorf("%v, %q", err, Wanted(to))
	}
}
