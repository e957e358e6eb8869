package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
)

// TestRemoteOutputs are objects of a bucket, and replace those of runs of the same name alone.
func TestRemoteOutputs(t *testing.T) {
	bucket := s3server.Start(t)
	b, job := busyboxJob(t, "workdir: /work", "outputs: [{from: res, to: 's3://"+bucket.Bucket+"/results'}]", "run: 'mkdir -p res/sub; echo $TEXT > res/sub/file'")
	b.Env = append(b.Env, bucket.Env()...)
	at := filepath.Join(bucket.Dir, "results", "res", "sub")
	for i, c := range []struct{ name, text, file string }{{"one", "first", "first\n"}, {"one", "second", "second\n"}, {"two", "third", "second\n"}} {
		if r := b.Try("run", "--name", c.name, "-e", "TEXT="+c.text, job); r.Code != 0 || !strings.Contains(r.Stderr, "s3://"+bucket.Bucket+"/results") {
			t.Fatalf("%+v", r)
		}
		raw, err := os.ReadFile(filepath.Join(at, "file"))
		if all, _ := os.ReadDir(at); err != nil || string(raw) != c.file || len(all) != 1+i/2 {
			t.Errorf("after run %d there are %d objects, one with %q, %v", i, len(all), raw, err)
		}
	}
}

// TestRemoteInputs come from a web server that breaks off and from a bucket. Neither the
// credentials nor the files stay.
func TestRemoteInputs(t *testing.T) {
	data := bytes.Repeat([]byte("era5 "), 1<<16)
	sum := sha256.Sum256(data)
	var requests atomic.Int32
	web := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if requests.Add(1) == 1 {
			w.Header().Set("Content-Length", "327680")
			w.Write(data[:100_000])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(web.Close)
	bucket := s3server.Start(t)
	for _, e := range bucket.Env() {
		key, value, _ := strings.Cut(e, "=")
		t.Setenv(key, value)
	}
	client, err := s3client.New(t.Context(), s3client.Settings{Bucket: bucket.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	key := "dir/small"
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket.Bucket, Key: &key, Body: strings.NewReader("small\n")}); err != nil {
		t.Fatal(err)
	}
	digest := hex.EncodeToString(sum[:])
	b, job := busyboxJob(t, "inputs:",
		"  - {from: '"+web.URL+"/era5/t2m', sha256: "+digest+", to: /data/}",
		"  - {from: 's3://"+bucket.Bucket+"/dir/small', to: /work/renamed}",
		"run: 'sha256sum < /data/t2m; cat /work/renamed; env | grep -c AWS'")
	ca := b.File("ca.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: web.Certificate().Raw})))
	b.Env = append(append(b.Env, "SSL_CERT_FILE="+ca), bucket.Env()...)
	r := b.Try("run", job)
	if r.Stdout != digest+"  -\nsmall\n0\n" || requests.Load() != 2 {
		t.Fatalf("after %d requests: %+v", requests.Load(), r)
	}
	if !strings.Contains(r.Stderr, "inputs[0].from fetches "+web.URL) {
		t.Errorf("it does not say what it fetches: %s", r.Stderr)
	}
	err = filepath.WalkDir(b.Dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		for _, secret := range []string{s3server.Secret, s3server.Access, "era5 era5 era5"} {
			if bytes.Contains(raw, []byte(secret)) {
				t.Errorf("%s has %q", path, secret)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	bad := b.File("bad.yaml", strings.Replace(b.Read(filepath.Base(job)), digest, strings.Repeat("0", 64), 1))
	if r := b.Try("run", bad); r.Code != 201 || r.Stdout != "" {
		t.Errorf("another digest: %+v", r)
	}
	b.Must("check", job)
}
