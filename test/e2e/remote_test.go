package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/emulate"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
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
	server, err := url.Parse(valueOf(bucket.Env(), "AWS_ENDPOINT_URL"))
	if err != nil {
		t.Fatal(err)
	}
	var stalls atomic.Int32
	stalled := make(chan struct{}, 2)
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("partNumber") == "2" && stalls.Add(1) <= 2 {
			io.Copy(io.Discard, r.Body) // else it is not noticed that the client is gone
			stalled <- struct{}{}
			<-r.Context().Done()
			return
		}
		(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(server); p.Out.Host = p.In.Host }}).ServeHTTP(w, r)
	}))
	t.Cleanup(front.Close)
	b, job := busyboxJob(t, "workdir: /work", "outputs: [{from: large, to: 's3://"+bucket.Bucket+"/results'}]", "run: 'dd if=/dev/zero of=large bs=1M count=0 seek=65'")
	b.Env = append(append(b.Env, bucket.Env()...), "AWS_ENDPOINT_URL="+front.URL)
	client := s3Client(server.String(), nil)
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
	bucket := s3server.StartFound(t)
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
	noSecrets(t, b.Dir, s3server.Secret, s3server.Access, "era5 era5 era5")
	bad := b.File("bad.yaml", strings.Replace(b.Read(filepath.Base(job)), digest, strings.Repeat("0", 64), 1))
	if r := b.Try("run", bad); r.Code != 201 || r.Stdout != "" {
		t.Errorf("another digest: %+v", r)
	}
	b.Must("check", job)
}

// TestRemoteInputsOfASite are fetched by the site where it reaches the bucket, though this machine
// does not, and else through here. The site gets no credentials.
func TestRemoteInputsOfASite(t *testing.T) {
	t.Parallel()
	gateway := testkit.RequireTool(t, "versitygw")
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	b, farm, job := rackWith(t, sshfarm.Start(t, 1, "SSL_CERT_FILE="+trusted), "volume: /data", "inputs:", "  - {from: 's3://bucket/dir/in', to: /data/}", "run: 'cat /data/in; env | grep -c AWS'")
	objects := t.TempDir()
	address := net.JoinHostPort(farm.Addrs[0], "7070")
	if _, err := farm.Launch(t.Context(), emulate.Command{
		Host: 0, Path: gateway, Env: os.Environ(), Log: filepath.Join(objects, "..", "log"),
		Argv: []string{gateway, "--port", address, "--access", s3server.Access, "--secret", s3server.Secret, "--quiet", "posix", objects},
	}); err != nil {
		t.Fatal(err)
	}
	there := s3Client("http://"+address, &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) { return farm.Dial(ctx, addr) }}})
	testkit.Eventually(t, 30*time.Second, func() error {
		_, err := there.ListBuckets(t.Context(), &s3.ListBucketsInput{})
		return err
	})
	put := func(client *s3.Client, bucket, text string) {
		t.Helper()
		key := "dir/in"
		_, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: strings.NewReader(text)})
		if err != nil {
			t.Fatal(err)
		}
	}
	bucket := "bucket"
	if _, err := there.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &bucket}); err != nil {
		t.Fatal(err)
	}
	put(there, bucket, "of the site\n")
	here := s3server.Start(t)
	b.Env = append(b.Env, here.Env()...)
	run := func(job, endpoint, says string, relayed bool) {
		t.Helper()
		b.Env = append(b.Env, "AWS_ENDPOINT_URL="+endpoint)
		if r := b.Try("run", "--name", "fetch", job); r.Stdout != says+"0\n" {
			t.Fatalf("%+v", r)
		}
		if ways := routesOfInputs(b, "fetch"); !slices.Equal(ways, []bool{relayed}) {
			t.Errorf("relayed from %s were %v", endpoint, ways)
		}
		if shown := b.Must("show", "fetch"); !strings.Contains(shown, map[bool]string{true: "relayed", false: "direct"}[relayed]+" transfer of ") {
			t.Errorf("it shows %s", shown)
		}
	}
	run(job, "http://"+address, "of the site\n", false)
	put(s3Client(valueOf(here.Env(), "AWS_ENDPOINT_URL"), nil), here.Bucket, "from here\n")
	mine := b.File("mine.yaml", strings.Replace(b.Read(filepath.Base(job)), "s3://bucket/", "s3://"+here.Bucket+"/", 1))
	run(mine, valueOf(here.Env(), "AWS_ENDPOINT_URL"), "from here\n", true)
	if front := frontOf(t, valueOf(here.Env(), "AWS_ENDPOINT_URL")); front != "" {
		run(mine, front, "from here\n", true)
	}
	web, digest := webOfASite(t, farm, trusted, "in", "of the web\n")
	run(b.File("web.yaml", strings.Replace(b.Read(filepath.Base(job)), "'s3://bucket/dir/in'", "'"+web+"', sha256: "+digest, 1)), "", "of the web\n", false)
	noSecrets(t, b.Dir, "X-Amz-Signature")
	noSecrets(t, farm.Dir, "X-Amz-Signature", s3server.Secret)
	left(t, farm)
}

// routesOfInputs reports of each remote input of a run whether it was relayed by this machine.
func routesOfInputs(b *testkit.Bee, run string) (relayed []bool) {
	var view struct {
		History []struct {
			Kind   string              `json:"kind"`
			Fields struct{ Cause any } `json:"fields"`
		} `json:"history"`
	}
	b.JSON(&view, "show", "--json", run)
	for _, e := range view.History {
		if e.Kind == "remote_input" {
			relayed = append(relayed, e.Fields.Cause != nil)
		}
	}
	return relayed
}

// serveArg makes the test binary a server of https: ADDRESS CERTIFICATE KEY FILE.
const serveArg = "serve-https"

// serve has a file for everyone, and breaks its first answer off in the middle.
func serve(address, certificate, key, file string) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var requests atomic.Int32
	return http.ListenAndServeTLS(address, certificate, key, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"one"`)
		if requests.Add(1) == 1 {
			w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
			w.Write(raw[:len(raw)/2])
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}))
}

// webOfASite starts a server of https on the first host of a farm, which this machine does not
// reach. Those trust it who have the file of certificates as theirs.
func webOfASite(t *testing.T, farm *sshfarm.Farm, trusted, name, text string) (file, digest string) {
	t.Helper()
	dir := t.TempDir()
	address := net.JoinHostPort(farm.Addrs[0], "7443")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(farm.Addrs[0])}, IsCA: true, BasicConstraintsValid: true,
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for path, raw := range map[string][]byte{
		trusted:                    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		filepath.Join(dir, "key"):  pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
		filepath.Join(dir, "file"): []byte(text),
	} {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(dir, "log")
	if _, err := farm.Launch(t.Context(), emulate.Command{
		Host: 0, Path: self, Env: os.Environ(), Log: log, Argv: []string{self, serveArg, address, trusted, filepath.Join(dir, "key"), filepath.Join(dir, "file")},
	}); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, 30*time.Second, func() error {
		c, err := farm.Dial(t.Context(), address)
		if err != nil {
			printed, _ := os.ReadFile(log)
			return fmt.Errorf("%w: %s", err, printed)
		}
		return c.Close()
	})
	sum := sha256.Sum256([]byte(text))
	return "https://" + address + "/dir/" + name, hex.EncodeToString(sum[:])
}

// frontOf is the address of another server, which this machine reaches, and no emulated host:
// "" where this machine has no network.
func frontOf(t *testing.T, endpoint string) string {
	t.Helper()
	server, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		n, is := a.(*net.IPNet)
		if !is || n.IP.To4() == nil || n.IP.IsLoopback() || n.IP.IsLinkLocalUnicast() {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(n.IP.String(), "0"))
		if err != nil {
			continue
		}
		front := &http.Server{Handler: &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(server); p.Out.Host = p.In.Host }}}
		go front.Serve(l) //nolint:errcheck // until it is closed
		t.Cleanup(func() { front.Close() })
		return "http://" + l.Addr().String()
	}
	return ""
}

func valueOf(env []string, name string) string {
	for _, e := range env {
		if value, is := strings.CutPrefix(e, name+"="); is {
			return value
		}
	}
	return ""
}

func s3Client(endpoint string, by *http.Client) *s3.Client {
	o := s3.Options{
		BaseEndpoint: aws.String(endpoint), Region: "us-east-1", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s3server.Access, SecretAccessKey: s3server.Secret}, nil
		}),
	}
	if by != nil {
		o.HTTPClient = by
	}
	return s3.New(o)
}

// noSecrets looks for words in all files of a directory.
func noSecrets(t *testing.T, dir string, words ...string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return nil // it has just been removed
		}
		raw, err := os.ReadFile(path)
		for _, word := range words {
			if err == nil && bytes.Contains(raw, []byte(word)) && !bytes.HasPrefix(raw, []byte("\x7fELF")) {
				t.Errorf("%s has %q", path, word)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
