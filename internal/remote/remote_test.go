package remote

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// TestMain has the authority of httptest's servers be one of this machine's.
func TestMain(m *testing.M) {
	s := httptest.NewTLSServer(nil)
	raw := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	s.Close()
	dir, err := os.MkdirTemp("", "bee-remote-")
	if err == nil {
		file := filepath.Join(dir, "ca.pem")
		err = errors.Join(os.WriteFile(file, raw, 0o600), os.Setenv("SSL_CERT_FILE", file))
	}
	if err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// content is what servers have.
var content = bytes.Repeat([]byte("0123456789abcdef"), 1<<14)

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// numbered returns a handler by one that gets the number of the request from 1 on.
func numbered(serve func(n int, w http.ResponseWriter, r *http.Request)) http.Handler {
	var n atomic.Int32
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { serve(int(n.Add(1)), w, r) })
}

// server serves with TLS.
func server(t *testing.T, serve func(n int, w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	s := httptest.NewTLSServer(numbered(serve))
	s.Config.ErrorLog = nil
	t.Cleanup(s.Close)
	return s
}

// whole serves all of the content, or the rest of it.
func whole(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("ETag", `"one"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// cut serves the beginning of what was asked for, and breaks off.
func cut(w http.ResponseWriter, r *http.Request, bytes int) {
	whole(&limited{ResponseWriter: w, left: bytes}, r)
	panic(http.ErrAbortHandler)
}

type limited struct {
	http.ResponseWriter
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if len(p) > l.left {
		l.ResponseWriter.Write(p[:l.left])
		l.ResponseWriter.(http.Flusher).Flush()
		l.left = 0
		return 0, errors.New("cut")
	}
	l.left -= len(p)
	return l.ResponseWriter.Write(p)
}

func quick() *Fetcher { return &Fetcher{Stalled: 3 * time.Second, Pause: time.Millisecond} }

// fetched fetches a file, and returns what has come; nil: nothing is there.
func fetched(t *testing.T, f File) ([]byte, error) {
	t.Helper()
	to := filepath.Join(t.TempDir(), "file")
	err := quick().Fetch(t.Context(), f, to, nil)
	raw, rerr := os.ReadFile(to)
	if (rerr == nil) != (err == nil) {
		t.Errorf("the file: %v, fetching it: %v", rerr, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(to)); err == nil && len(left) != 1 {
		t.Errorf("beside it is left %v", left)
	}
	return raw, err
}

// TestServersThatHave gives the file in the end, whatever breaks.
func TestServersThatHave(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		serve func(n int, w http.ResponseWriter, r *http.Request)
		most  int // requests
	}{
		"all of it": {func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r) }, 1},
		"without a length": {func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.Write(content)
		}, 1},
		"a connection that breaks": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n <= 3 {
				cut(w, r, 50_000)
			}
			whole(w, r)
		}, 4},
		"one that brings nothing more": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				whole(&limited{ResponseWriter: w, left: 50_000}, r)
				<-r.Context().Done()
				return
			}
			whole(w, r)
		}, 2},
		"no ranges": {func(n int, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Range")
			if n == 1 {
				cut(w, r, 50_000)
			}
			whole(w, r)
		}, 2},
		"another version meanwhile": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				w.Header().Set("ETag", `"zero"`)
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				w.Write(bytes.Repeat([]byte{'x'}, 50_000))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			whole(w, r)
		}, 2},
		"another version, of which it says nothing": {func(n int, w http.ResponseWriter, r *http.Request) {
			r.Header.Del("If-Range")
			if n == 1 {
				w.Header().Set("Content-Length", strconv.Itoa(len(content)))
				w.Write(bytes.Repeat([]byte{'x'}, 50_000))
				w.(http.Flusher).Flush()
				panic(http.ErrAbortHandler)
			}
			whole(w, r)
		}, 3},
		"a redirect to itself": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n == 1 {
				http.Redirect(w, r, "/elsewhere?x=1", http.StatusFound)
				return
			}
			whole(w, r)
		}, 2},
		"a bad moment": {func(n int, w http.ResponseWriter, r *http.Request) {
			if n <= 2 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			whole(w, r)
		}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int32
			s := server(t, func(n int, w http.ResponseWriter, r *http.Request) { requests.Add(1); c.serve(n, w, r) })
			raw, err := fetched(t, File{URL: s.URL + "/data", SHA256: digest(content)})
			if err != nil || !bytes.Equal(raw, content) {
				t.Errorf("%d bytes, %v", len(raw), err)
			}
			if n := int(requests.Load()); n > c.most {
				t.Errorf("%d requests, expected %d", n, c.most)
			}
		})
	}
}

// TestServersThatLie leave no file, and what they lead to is not in the error.
func TestServersThatLie(t *testing.T) {
	t.Parallel()
	other := server(t, func(_ int, w http.ResponseWriter, r *http.Request) { whole(w, r) })
	leads := func(to string) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", to+"?sig=secret")
			w.WriteHeader(http.StatusFound)
		}
	}
	raw := func(head string, body []byte) func(int, http.ResponseWriter, *http.Request) {
		return func(_ int, w http.ResponseWriter, _ *http.Request) {
			c, buf, err := w.(http.Hijacker).Hijack()
			if err != nil {
				return
			}
			defer c.Close()
			buf.WriteString("HTTP/1.1 " + strings.ReplaceAll(head, "\n", "\r\n") + "\r\n\r\n")
			buf.Write(body)
			if err := buf.Flush(); err != nil { // who has read enough has gone
				return
			}
		}
	}
	for name, c := range map[string]struct {
		serve func(int, http.ResponseWriter, *http.Request)
		kind  core.Kind
	}{
		"another file":              {func(_ int, w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "evil") }, core.Invalid},
		"none":                      {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }, core.NotFound},
		"a login":                   {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }, core.Permanent},
		"never well":                {func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, core.Transient},
		"always cut at once":        {func(_ int, _ http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, core.Transient},
		"less than announced":       {raw("200 OK\nContent-Length: 99999999", nil), core.Transient},
		"a part, unasked":           {raw("206 Partial Content\nContent-Length: 4\nContent-Range: bytes 5-8/9", []byte("evil")), core.Permanent},
		"no HTTP":                   {raw("bytes", bytes.Repeat([]byte("x"), 1<<20)), core.Transient},
		"headers without end":       {raw("200 OK\nX: "+strings.Repeat("x", 4<<20), nil), core.Transient},
		"a way to http":             {leads("http://127.0.0.1/x"), core.Permanent},
		"a way to a file":           {leads("file:///etc/passwd"), core.Permanent},
		"a way to metadata":         {leads("https://169.254.169.254/latest"), core.Permanent},
		"a way to metadata by IPv6": {leads("https://[fe80::1]/latest"), core.Permanent},
		"a way to mapped metadata":  {leads("https://[::ffff:169.254.169.254]/latest"), core.Permanent},
		"a way to a private server": {leads("https://10.0.0.1/x"), core.Permanent},
		"a way to another here":     {leads(other.URL + "/x"), core.Permanent},
		"a way by a name":           {leads(strings.Replace(other.URL, "127.0.0.1", "localhost", 1) + "/x"), core.Permanent},
		"a way with a password":     {leads(strings.Replace(other.URL, "https://", "https://ann:secret@", 1)), core.Permanent},
		"a circle": {func(_ int, w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/x?sig=secret", http.StatusFound)
		}, core.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := server(t, c.serve)
			_, err := fetched(t, File{URL: s.URL + "/data", SHA256: digest(content)})
			if !core.IsKind(err, c.kind) || core.Remedy(err) == "" {
				t.Errorf("%v, kind %v, %q", err, core.KindOf(err), core.Remedy(err))
			}
			if err != nil && strings.Contains(err.Error()+core.Remedy(err), "secret") {
				t.Errorf("it says too much: %v", err)
			}
		})
	}
}

// TestMoreThanAnnounced is not taken, where a server continues with another length.
func TestMoreThanAnnounced(t *testing.T) {
	s := server(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			cut(w, r, 50_000)
		}
		w.Header().Set("ETag", `"one"`)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes 50000-%d/%d", len(content)-1, len(content)))
		w.WriteHeader(http.StatusPartialContent)
		for r.Context().Err() == nil { // without end
			if _, err := w.Write(content); err != nil {
				return
			}
		}
	})
	if _, err := fetched(t, File{URL: s.URL + "/data", SHA256: digest(content)}); !core.IsKind(err, core.Permanent) {
		t.Errorf("%v, kind %v", err, core.KindOf(err))
	}
}

// TestAnEndlessBody ends when anyone who asked for it has enough.
func TestAnEndlessBody(t *testing.T) {
	s := server(t, func(_ int, w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(content); err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithCancelCause(t.Context())
	full := errors.New("too little space would be left")
	err := quick().Fetch(ctx, File{URL: s.URL + "/data", SHA256: digest(content)}, filepath.Join(t.TempDir(), "file"), func(done int64) {
		if done > 1<<20 {
			cancel(full)
		}
	})
	if !errors.Is(err, full) {
		t.Errorf("got %v", err)
	}
}

// TestTheNextCallContinues where the one before was ended.
func TestTheNextCallContinues(t *testing.T) {
	const first = 100_000
	var from atomic.Value
	s := server(t, func(n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			whole(&limited{ResponseWriter: w, left: first}, r)
			<-r.Context().Done()
			return
		}
		from.Store(r.Header.Get("Range") + " " + r.Header.Get("If-Range"))
		whole(w, r)
	})
	to, f := filepath.Join(t.TempDir(), "file"), File{URL: s.URL + "/data", SHA256: digest(content)}
	ctx, cancel := context.WithCancel(t.Context())
	err := (&Fetcher{}).Fetch(ctx, f, to, func(done int64) {
		if done == first {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := quick().Fetch(t.Context(), f, to, nil); err != nil {
		t.Fatal(err)
	}
	if raw, err := os.ReadFile(to); err != nil || !bytes.Equal(raw, content) {
		t.Errorf("%d bytes, %v", len(raw), err)
	}
	if got := from.Load(); got != fmt.Sprintf(`bytes=%d- "one"`, first) {
		t.Errorf("asked for %v", got)
	}
	s.Close()
	if err := quick().Fetch(t.Context(), f, to, nil); err != nil {
		t.Errorf("once it is there: %v", err)
	}
}

// TestTheUsersOwnAddresses may not be link-local ones either.
func TestTheUsersOwnAddresses(t *testing.T) {
	for _, url := range []string{"https://169.254.169.254/latest/meta-data/x", "https://[fe80::1%25lo]/x", "https://0.0.0.0/x"} {
		if _, err := fetched(t, File{URL: url, SHA256: digest(content)}); !core.IsKind(err, core.Permanent) {
			t.Errorf("%s: %v, kind %v", url, err, core.KindOf(err))
		}
	}
}
