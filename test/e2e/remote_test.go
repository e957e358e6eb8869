package e2e

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/testkit"
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

// TestOutputsOfAKilledController leave no parts in the bucket: bee sweep removes them, and so
// does who sends the outputs again.
func TestOutputsOfAKilledController(t *testing.T) {
	t.Parallel()
	bucket := s3server.Start(t)
	env := map[string]string{}
	for _, e := range bucket.Env() {
		key, value, _ := strings.Cut(e, "=")
		env[key] = value
	}
	server, err := url.Parse(env["AWS_ENDPOINT_URL"])
	if err != nil {
		t.Fatal(err)
	}
	var stalls atomic.Int32
	stalled := make(chan struct{}, 2)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "2" && stalls.Add(1) <= 2 {
			io.Copy(io.Discard, r.Body) //nolint:errcheck // else it is not noticed that the client is gone
			stalled <- struct{}{}
			<-r.Context().Done()
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(server); p.Out.Host = p.In.Host }}).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b, job := busyboxJob(t, "workdir: /work", "outputs: [{from: large, to: 's3://"+bucket.Bucket+"/results'}]", "run: 'dd if=/dev/zero of=large bs=1M count=0 seek=65'")
	b.Env = append(append(b.Env, bucket.Env()...), "AWS_ENDPOINT_URL="+front.URL)
	client := s3.New(s3.Options{
		BaseEndpoint: aws.String(server.String()), Region: env["AWS_REGION"], UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s3server.Access, SecretAccessKey: s3server.Secret}, nil
		}),
	})
	uploads := func() int {
		t.Helper()
		page, err := client.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &bucket.Bucket})
		if err != nil {
			t.Fatal(err)
		}
		return len(page.Uploads)
	}
	killed := func() {
		t.Helper()
		select {
		case <-stalled:
		case <-time.After(2 * time.Minute):
			t.Fatalf("no part is sent:\n%s", b.Must("ps"))
		}
		testkit.Kill(testkit.AwaitControllers(t, b, 1)[0])
		testkit.AwaitControllers(t, b, 0)
		if n := uploads(); n != 1 {
			t.Errorf("%d uploads after the kill", n)
		}
	}
	id := strings.TrimSpace(b.Must("run", "-d", job))
	killed()
	if out := b.Must("sweep"); !strings.Contains(out, "s3://"+bucket.Bucket+"/results/large") || uploads() != 0 {
		t.Errorf("after bee sweep there are %d uploads: %s", uploads(), out)
	}
	b.Must("supervise")
	killed()
	b.Must("supervise")
	if v := b.Await(id, 2*time.Minute); v.State != "succeeded" || uploads() != 0 {
		t.Errorf("with %d uploads: %+v", uploads(), v)
	}
	if info, err := os.Stat(filepath.Join(bucket.Dir, "results", "large")); err != nil || info.Size() != 65<<20 {
		t.Errorf("%v, %v", info, err)
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
