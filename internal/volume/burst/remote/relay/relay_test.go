package relay

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// served is a relay to a place of a server, and its address.
func served(t *testing.T, p remote.Place) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); core.BestEffort(New(p, slog.New(slog.DiscardHandler)).Serve(ctx, l)) }()
	t.Cleanup(func() { cancel(); <-ended })
	return l.Addr().String()
}

// TestRelayOfARemote: all that a burst buffer does in a bucket works through a relay, without credentials at its end.
func TestRelayOfARemote(t *testing.T) {
	server := s3server.StartFound(t)
	p := remote.Place{Bucket: server.Bucket, Prefix: "run 7"}
	address := served(t, p)
	r, err := remote.Open(p, remote.Options{Volume: "v", Notes: t.TempDir(), Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", address)
	}})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	defer r.Close()
	must(r.SetRecord([]byte(`{"id":"v"}`)))
	if raw, err := r.Record(); err != nil || string(raw) != `{"id":"v"}` {
		t.Errorf("the record is %q, %v", raw, err)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 9<<16) // of two parts
	versions := map[string]remote.Version{}
	for i, f := range []struct {
		name string
		text []byte
	}{{"a file+?", []byte("text")}, {"d/large", large}, {"d/none", nil}} {
		c := remote.Content{Seq: uint64(i + 1), Size: int64(len(f.text)), Mode: 0o640, At: func(p []byte, off int64) error {
			copy(p, f.text[off:])
			return nil
		}}
		partial, ours, err := r.Write(t.Context(), f.name, uint64(i+1), c)
		must(err)
		versions[f.name], err = r.Publish(partial, f.name, ours, remote.Version{})
		must(err)
	}
	if e, err := r.Stat("a file+?"); err != nil || e.Mode != 0o640 || e.Version != versions["a file+?"] {
		t.Errorf("%+v, %v", e, err)
	}
	must(r.Mkdir("empty", 0o755))
	must(r.Symlink("a file+?", "link"))
	v, err := r.SetAttr("d/large", 10, versions["d/large"], 0o600, 1_000_000_000_000_000_000)
	must(err)
	v, err = r.Move("d/large", "larger", 11, v, remote.Version{})
	must(err)
	source, err := r.Open("larger")
	must(err)
	got := make([]byte, len(large))
	if n, err := source.Read(t.Context(), got, 0); err != nil || n == 0 || !bytes.Equal(got[:n], large[:n]) {
		t.Errorf("%d bytes were read: %v", n, err)
	}
	must(source.Close())
	_, err = r.MoveDir("d", "moved", 12, remote.Version{Tag: "/"}, false)
	must(err)
	must(r.Remove("larger", 2, v))
	if err := r.Remove("moved/none", 3, remote.Version{Tag: `"0123"`}); !errors.Is(err, remote.ErrForeign) {
		t.Errorf("another version was removed: %v", err)
	}
	list, err := r.List(".")
	must(err)
	names := make([]string, 0, len(list))
	for _, e := range list {
		names = append(names, e.Name)
	}
	slices.Sort(names)
	if text := strings.Join(names, " "); text != "a file+? empty link moved" {
		t.Errorf("it lists %q", text)
	}
	must(r.RemoveRecord())
	if _, err := r.Record(); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(server.Dir, "run 7", "a file+?")); err != nil {
		t.Error(err)
	}
}

// TestRelayPassesNothingElseOn: a host that speaks as it likes reaches nothing but the place, by nothing but what burst
// buffers do, and learns nothing of the credentials.
func TestRelayPassesNothingElseOn(t *testing.T) {
	server := s3server.StartFound(t)
	server.Put("run7/in", "in")
	server.Put("run70/secret", "theirs")
	server.Put("secret", "theirs")
	address := served(t, remote.Place{Bucket: server.Bucket, Prefix: "run7"})
	const none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	ask := func(request string) (int, string) {
		t.Helper()
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		line, headers, _ := strings.Cut(request, "\n")
		text := line + " HTTP/1.1\r\nHost: relay.invalid\r\nConnection: close\r\n"
		if !strings.Contains(headers, "Sha256") {
			text += "X-Amz-Content-Sha256: " + none + "\r\n"
		}
		if headers != "" {
			text += strings.ReplaceAll(headers, "\n", "\r\n") + "\r\n"
		}
		text += "\r\n"
		if strings.Contains(headers, "chunked") {
			text += "0\r\n\r\n"
		}
		if _, err := conn.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		var all bytes.Buffer
		if _, err := all.ReadFrom(conn); err != nil {
			t.Fatal(err)
		}
		answer := all.String()
		for _, word := range []string{s3server.Access, s3server.Secret, "theirs"} {
			if strings.Contains(answer, word) {
				t.Errorf("%q is answered by %q", request, answer)
			}
		}
		status := 0
		if words := strings.Fields(answer); len(words) > 1 {
			for _, c := range words[1] {
				status = status*10 + int(c-'0')
			}
		}
		return status, answer
	}
	for _, request := range []string{
		"GET /checkpoints/run7/in", "HEAD /checkpoints/run7/in", "GET /checkpoints?list-type=2&prefix=run7%2F", "GET /checkpoints/?list-type=2&prefix=run7%2Fd%2F&delimiter=%2F",
		"GET http://elsewhere.invalid/checkpoints/run7/in", // the place alone counts
		"GET /checkpoints/run7/in\nAuthorization: AWS4-HMAC-SHA256 Credential=x\nX-Amz-Security-Token: x\nX-Forwarded-For: 1.2.3.4",
	} {
		if status, answer := ask(request); status != http.StatusOK {
			t.Errorf("%q: %q", request, answer)
		}
	}
	for _, request := range []string{
		"GET /checkpoints/secret", "HEAD /checkpoints/secret", "GET /checkpoints/run7", "GET /checkpoints/run70/secret", "GET /checkpoints/run7/../secret", "GET /checkpoints/run7/%2e%2e/secret",
		"GET /checkpoints/run7/%2E%2E%2Fsecret", "GET /checkpoints/run7//in", "GET /checkpoints/run7/./in", "GET /checkpoints/run7/%00", "GET /checkpoints//run7/in", "GET //checkpoints/run7/in",
		"GET /other/run7/in", "GET /checkpointsrun7/in", "GET /", "GET /checkpoints", "GET /checkpoints?list-type=2", "GET /checkpoints?list-type=2&prefix=run7", "GET /checkpoints?list-type=2&prefix=",
		"GET /checkpoints?list-type=2&prefix=run7%2F&prefix=", "GET /checkpoints?list-type=2&prefix=run70%2F", "GET /checkpoints?uploads", "GET /checkpoints?uploads&prefix=secret", "GET /checkpoints?policy",
		"GET /checkpoints?list-type=2&prefix=run7%2F&versions", "DELETE /checkpoints", "PUT /checkpoints", "PUT /checkpoints?policy", "POST /checkpoints?delete", "DELETE /checkpoints/secret",
		"GET /checkpoints/run7/in?acl", "PUT /checkpoints/run7/in?acl", "PUT /checkpoints/run7/in\nX-Amz-Acl: public-read", "PUT /checkpoints/run7/in\nX-Amz-Grant-Read: uri=x",
		"PUT /checkpoints/run7/in\nX-Amz-Website-Redirect-Location: /x", "PUT /checkpoints/run7/out\nX-Amz-Copy-Source: checkpoints/secret", "PUT /checkpoints/run7/out\nX-Amz-Copy-Source: /checkpoints/run7/../secret",
		"PUT /checkpoints/run7/out\nX-Amz-Copy-Source: checkpoints/run7%2f%2e%2e%2fsecret", "PUT /checkpoints/run7/out\nX-Amz-Copy-Source: other/run7/in", "PUT /checkpoints/run7/out\nX-Amz-Copy-Source: checkpoints/run7/in?versionId=1",
		"PUT /checkpoints/run7/out\nX-Amz-Copy-Source: checkpoints/run7/in\nX-Amz-Copy-Source: checkpoints/secret", "PUT /checkpoints/run7/out?uploadId=1", "PUT /checkpoints/run7/out?partNumber=1",
		"POST /checkpoints/run7/out", "POST /checkpoints/run7/out?select", "POST /checkpoints/run7/out?uploads&uploadId=1", "PATCH /checkpoints/run7/in", "CONNECT elsewhere.invalid:443", "OPTIONS *",
		"PUT /checkpoints/run7/out\nTransfer-Encoding: chunked", "PUT /checkpoints/run7/out\nContent-Length: 99999999999", "PUT /checkpoints/run7/out\nX-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
		"GET /checkpoints?list-type=2&prefix=run7%2F..%2F", "GET /checkpoints?list-type=2&prefix=run7%2F..", "GET /checkpoints?list-type=2&prefix=run7%2F.%2Fd", "GET /checkpoints?list-type=2&prefix=run7%2F%2F", "GET /checkpoints?list-type=2&prefix=run7%2Fd%2F%2Fe",
		"GET /checkpoints?list-type=2&prefix=run7%2Fd%0A", "GET /checkpoints?uploads&prefix=run7%2F..%2Fsecret",
		"GET /checkpoints/run7/in\nContent-Length: 1", "HEAD /checkpoints/run7/in\nContent-Length: 1", "DELETE /checkpoints/run7/in\nContent-Length: 1",
		"GET /checkpoints/run7/" + strings.Repeat("x", 1025), "GET /checkpoints/run7/in\nX-Amz-Content-Sha256: x",
	} {
		if status, answer := ask(request); status != http.StatusForbidden || !strings.Contains(answer, "AccessDenied") && !strings.HasPrefix(request, "HEAD") {
			t.Errorf("%q: %q", request, answer)
		}
	}
	if _, err := os.Stat(filepath.Join(server.Dir, "run7", "out")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was written: %v", err)
	}
	if status, answer := ask("GET /checkpoints/run7/none"); status != http.StatusNotFound || !strings.Contains(answer, "NoSuchKey") {
		t.Errorf("%q", answer)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another") // credentials that the bucket refuses, and repeats in its answer
	again := served(t, remote.Place{Bucket: server.Bucket, Prefix: "run7"})
	address = again
	if status, answer := ask("GET /checkpoints/run7/in"); status != http.StatusForbidden || !strings.Contains(answer, "SignatureDoesNotMatch") {
		t.Errorf("%q", answer)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "another") // the server does not know this user: no object is missing
	gone := served(t, remote.Place{Bucket: server.Bucket, Prefix: "run7"})
	r, err := remote.Open(remote.Place{Bucket: server.Bucket, Prefix: "run7"}, remote.Options{Volume: "v", Dial: func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", gone)
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.List("."); !errors.Is(err, remote.ErrAway) {
		t.Errorf("a user who is gone: %v", err)
	}
}

// TestRelayReadsCredentialsAgain once the bucket has refused those that were found first, and has none to give away
// where none are found.
func TestRelayReadsCredentialsAgain(t *testing.T) {
	server := s3server.Start(t)
	home := t.TempDir()
	for name, value := range map[string]string{
		"HOME": home, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": server.Endpoint(), "AWS_REGION": "us-east-1",
	} {
		t.Setenv(name, value)
	}
	file := filepath.Join(home, "credentials")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	r := New(remote.Place{Bucket: server.Bucket, Prefix: "run7"}, slog.New(slog.DiscardHandler))
	server.Put("run7/in", "in")
	look := func() int {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/"+server.Bucket+"/run7/in", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
		w := &recorder{header: http.Header{}}
		r.next = time.Time{}
		r.ServeHTTP(w, q)
		return w.status
	}
	if status := look(); status != http.StatusServiceUnavailable {
		t.Errorf("without credentials: %d", status)
	}
	for _, c := range []struct {
		secret string
		status int
	}{{"expired", http.StatusForbidden}, {s3server.Secret, http.StatusOK}} {
		text := "[default]\naws_access_key_id = " + s3server.Access + "\naws_secret_access_key = " + c.secret + "\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if status := look(); status != c.status {
			t.Errorf("with %q: %d", c.secret, status)
		}
	}
}

// fakeBucket is a relay to a bucket whose answers the test gives. Its credentials are from a program; ran counts how often
// that was run.
func fakeBucket(t *testing.T, log io.Writer, answer http.HandlerFunc) (r *Relay, ran func() int) {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	home := t.TempDir()
	program, times := filepath.Join(home, "give"), filepath.Join(home, "times")
	text := "#!/bin/sh\necho >> " + times + "\n[ -e " + home + "/logged-in ] && echo '{\"Version\": 1, \"AccessKeyId\": \"id\", \"SecretAccessKey\": \"s3cr3t\"}'\n"
	if err := errors.Join(core.WriteProgram(program, []byte(text), 0o700),
		os.WriteFile(filepath.Join(home, "config"), []byte("[default]\ncredential_process = "+program+"\n"), 0o600),
		os.WriteFile(filepath.Join(home, "logged-in"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"HOME": home, "AWS_EC2_METADATA_DISABLED": "true", "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_ENDPOINT_URL": server.URL, "AWS_REGION": "us-east-1",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "none"), "AWS_CONFIG_FILE": filepath.Join(home, "config"),
	} {
		t.Setenv(name, value)
	}
	return New(remote.Place{Bucket: "b", Prefix: "p"}, slog.New(slog.NewTextHandler(log, nil))), func() int {
		raw, err := os.ReadFile(times)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		return bytes.Count(raw, []byte("\n"))
	}
}

// asked is what a relay answers to a request.
func asked(t *testing.T, r *Relay, method, path string) *httptest.ResponseRecorder {
	t.Helper()
	q := httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody)
	q.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	w := httptest.NewRecorder()
	r.ServeHTTP(w, q)
	return w
}

// TestRelayRunsNoProgramAtWill: a site cannot have the program for credentials be run again and again, nor fill the log,
// and gets no text of the bucket.
func TestRelayRunsNoProgramAtWill(t *testing.T) {
	var log bytes.Buffer
	code := "AccessDenied"
	r, ran := fakeBucket(t, &log, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, "<Error><Code>"+code+"</Code><Message>private-text</Message></Error>")
	})
	for range 20 {
		if w := asked(t, r, http.MethodGet, "/b/p/x"); w.Code != http.StatusForbidden || strings.Contains(w.Body.String(), "private") || !strings.Contains(w.Body.String(), code) {
			t.Errorf("%d: %q", w.Code, w.Body.String())
		}
		r.next = time.Time{}
	}
	if n := ran(); n != 1 {
		t.Errorf("for what is not permitted, the program was run %d times", n)
	}
	code = "ExpiredToken"
	begun := time.Now()
	for range 20 {
		asked(t, r, http.MethodGet, "/b/p/x")
	}
	if n := ran(); n > 2+int(time.Since(begun)/readAgain) {
		t.Errorf("for credentials that have expired, the program was run %d times", n)
	}
	for range 20 {
		asked(t, r, http.MethodGet, "/b/other")
	}
	r.log.flush()
	if n := strings.Count(log.String(), "\n"); n > 4+2*int(time.Since(begun)/logAgain) || !strings.Contains(log.String(), "private-text") || strings.Count(log.String(), "times=") < 2 {
		t.Errorf("the log has %d lines: %s", n, log.String())
	}
	if first, second := r.pause.Next(), r.pause.Next(); second <= first || second > mostReadAgain {
		t.Errorf("the pauses are %v and %v", first, second)
	}
}

// TestRelayWithoutCredentials says so by a code of its own, and asks for them once in a while.
func TestRelayWithoutCredentials(t *testing.T) {
	var log bytes.Buffer
	r, ran := fakeBucket(t, &log, func(w http.ResponseWriter, _ *http.Request) {})
	in := filepath.Join(os.Getenv("HOME"), "logged-in")
	if err := os.Remove(in); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if w := asked(t, r, http.MethodGet, "/b/p/x"); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), remote.RelayHasNoKeys) {
			t.Errorf("%d: %q", w.Code, w.Body.String())
		}
	}
	if n := ran(); n > 4 {
		t.Errorf("the program was run %d times", n)
	}
	if err := os.WriteFile(in, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r.next = time.Time{}
	if w := asked(t, r, http.MethodGet, "/b/p/x"); w.Code != http.StatusOK {
		t.Errorf("after a login: %d", w.Code)
	}
}

// TestRelayPassesSlowAnswersOn: the first bytes of an answer of unknown length come while the bucket still works.
func TestRelayPassesSlowAnswersOn(t *testing.T) {
	read := make(chan struct{})
	r, _ := fakeBucket(t, io.Discard, func(w http.ResponseWriter, q *http.Request) {
		io.WriteString(w, " ")
		core.BestEffort(http.NewResponseController(w).Flush())
		select {
		case <-read:
		case <-q.Context().Done():
		}
		io.WriteString(w, "<done/>")
	})
	front := httptest.NewServer(r)
	defer front.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, front.URL+"/b/p/x?uploadId=1", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("X-Amz-Content-Sha256", "UNSIGNED-PAYLOAD")
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if _, err := io.ReadFull(answer.Body, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	close(read)
	if rest, err := io.ReadAll(answer.Body); err != nil || string(rest) != "<done/>" {
		t.Errorf("%q, %v", rest, err)
	}
}

// TestCredentialsThatExpireAreNoMissingPermission, where their end is noticed by an answer without content, at a relay
// and at this host itself.
func TestCredentialsThatExpireAreNoMissingPermission(t *testing.T) {
	var heads atomic.Int64
	var denied atomic.Bool
	r, _ := fakeBucket(t, io.Discard, func(w http.ResponseWriter, q *http.Request) {
		switch {
		case q.Method == http.MethodHead && (denied.Load() || heads.Add(1) == 1): // those that it was signed by have just expired
			w.WriteHeader(http.StatusForbidden)
		case q.Method == http.MethodHead:
			w.WriteHeader(http.StatusNotFound)
		default:
			io.WriteString(w, "<ListBucketResult></ListBucketResult>")
		}
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { core.BestEffort(r.Serve(t.Context(), l)) }()
	relayed := func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", l.Addr().String())
	}
	for name, dial := range map[string]remote.Dial{"relayed": relayed, "direct": nil} {
		t.Run(name, func(t *testing.T) {
			heads.Store(0)
			far, err := remote.Open(remote.Place{Bucket: "b", Prefix: "p"}, remote.Options{Volume: "v", Notes: t.TempDir(), Dial: dial})
			if err != nil {
				t.Fatal(err)
			}
			defer far.Close()
			denied.Store(false)
			if _, err := far.Stat("f"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("with credentials that have expired: %v", err)
			}
			denied.Store(true)
			if _, err := far.Stat("f"); !errors.Is(err, fs.ErrPermission) {
				t.Errorf("without the permission: %v", err)
			}
		})
	}
}

// recorder takes an answer.
type recorder struct {
	header http.Header
	status int
	bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) { r.status = status }
