package burst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	stored "github.com/bee-hpc/bee/internal/remote"
	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// TestBucketKeepsAttributes drains files, links and directories to a bucket, and reads them by
// another volume: each file is one plain object, and its attributes are there.
func TestBucketKeepsAttributes(t *testing.T) {
	server := s3server.StartFound(t)
	b := startBucket(t, server, Options{})
	large := bytes.Repeat([]byte("0123456789abcdef"), 17<<16) // of three parts
	b.file("small", "text")
	b.file("large", string(large))
	b.file("none", "")
	b.make(remote.Link, "link", "small")
	empty := b.make(remote.Dir, "empty", "")
	b.fileIn(b.make(remote.Dir, "dir", ""), "x y+z?", "inside")
	for name, mode := range map[string]uint32{"small": 0o751, "large": 0o400} {
		a, err := b.names.Lookup(t.Context(), meta.Root, name)
		b.must(err)
		_, err = b.SetAttr(t.Context(), who{}, &calls.Request{Ino: a.Ino, Valid: calls.SetMode | calls.SetMtime, Mode: mode, Mtime: 1_000_000_000_123_456_789})
		b.must(err)
	}
	_, err := b.SetAttr(t.Context(), who{}, &calls.Request{Ino: empty, Valid: calls.SetMode, Mode: 0o711})
	b.must(err)
	b.drained()
	b.rename("dir", "moved")
	b.rename("large", "larger")
	b.drained()
	b.has(map[string]string{
		"small": "text", "larger": string(large), "none": "", "link": "small", "empty": directory, "moved": directory, "moved/x y+z?": "inside",
	})

	other := startBucket(t, server, Options{})
	for name, want := range map[string]struct {
		mode  uint32
		size  int64
		mtime int64
	}{
		"small":  {syscall.S_IFREG | 0o751, 4, 1_000_000_000_123_456_789},
		"larger": {syscall.S_IFREG | 0o400, int64(len(large)), 1_000_000_000_123_456_789},
		"none":   {syscall.S_IFREG | 0o640, 0, 0},
		"link":   {syscall.S_IFLNK | 0o777, 5, 0},
		"empty":  {syscall.S_IFDIR | 0o711, 0, 0},
		"moved":  {syscall.S_IFDIR | 0o755, 0, 0},
	} {
		a, err := other.names.Lookup(t.Context(), meta.Root, name)
		if err != nil || a.Mode != want.mode || a.Size != want.size || want.mtime != 0 && a.Mtime != want.mtime {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	if got := other.sees("larger"); got != string(large) {
		t.Errorf("larger has %d bytes", len(got))
	}
	if list, err := other.names.List(t.Context(), meta.Root); err != nil || len(list) != 7 {
		t.Errorf("%+v, %v", list, err)
	}
	uploads, err := server.Client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &server.Bucket})
	if err != nil || len(uploads.Uploads) > 0 {
		t.Errorf("left in the bucket: %+v, %v", uploads, err)
	}
}

// TestBucketAway writes while the bucket answers 503, then 429, and then not at all: programs wait or
// work, nothing fails, and everything arrives once it is back.
func TestBucketAway(t *testing.T) {
	server := s3server.StartFound(t)
	var refuse, refused atomic.Int64
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		switch refuse.Load() {
		case 1, 2:
			refused.Add(1)
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(map[int64]int{1: http.StatusServiceUnavailable, 2: http.StatusTooManyRequests}[refuse.Load()])
			return
		case 3:
			refused.Add(1)
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
	})
	b := startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}})
	there := func(i int64) string { return fmt.Sprint("there", i) } // what was read is in the buffer
	for i := range int64(3) {
		b.foreign(there(i), "before")
	}
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "f", Mode: 0o600})
	b.must(err)
	for i := range int64(3) {
		_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
		b.must(err)
		refuse.Store(i + 1)
		b.must(b.Write(t.Context(), a.Ino, i, []byte{byte('a' + i)}))
		b.must(b.Flush(a.Ino))
		b.must(b.Release(0, a.Ino, 1))
		seen := make(chan string)
		go func() { seen <- b.sees(there(i)) }()
		before := refused.Load()
		testkit.Eventually(t, 20*time.Second, func() error {
			if s := b.Status(); s.Waits == "" || s.Drained || refused.Load() < before+2 {
				return fmt.Errorf("refused %d times, %+v", refused.Load()-before, s)
			}
			return nil
		})
		select {
		case got := <-seen:
			t.Errorf("read %q from a bucket that is away", got)
		default:
		}
		refuse.Store(0)
		if got := <-seen; got != "before" {
			t.Errorf("read %q", got)
		}
		b.drained()
	}
	b.has(map[string]string{there(0): "before", there(1): "before", there(2): "before", "f": "abc"})
}

// TestBucketWithCredentialsThatExpire: they stop the drain, which status has, and lose nothing. They are read again, and
// it continues. A program that gives them is asked for others before they expire.
func TestBucketWithCredentialsThatExpire(t *testing.T) {
	server := s3server.Start(t)
	home := t.TempDir()
	var valid atomic.Value // the token that is
	valid.Store("one")
	var refused atomic.Int64
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Header.Get("X-Amz-Security-Token") != valid.Load() {
			refused.Add(1)
			w.WriteHeader(http.StatusBadRequest)
			io.WriteString(w, "<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
			return
		}
		s3server.Without(t, r, "X-Amz-Security-Token")
		forward.ServeHTTP(w, r)
	})
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SESSION_TOKEN": "", "AWS_PROFILE": "", "AWS_EC2_METADATA_DISABLED": "true", "AWS_REGION": "us-east-1",
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(home, "credentials"), "AWS_CONFIG_FILE": filepath.Join(home, "config"),
	} {
		t.Setenv(name, value)
	}
	found := func(token string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, "credentials"), []byte("[default]\naws_access_key_id = id\naws_secret_access_key = secret\naws_session_token = "+token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found("one")
	b := startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}})
	b.file("before", "one")
	b.drained()
	a, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "after", Mode: 0o600})
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	valid.Store("two")
	b.must(b.Write(t.Context(), a.Ino, 0, []byte("two")))
	b.must(b.Flush(a.Ino))
	b.must(b.Release(0, a.Ino, 1))
	testkit.Eventually(t, 20*time.Second, func() error {
		if s := b.Status(); !strings.Contains(s.Waits, "ExpiredToken") || s.Drained || s.Undrained == 0 || s.Refused != nil || refused.Load() < 2 {
			return fmt.Errorf("refused %d times, %+v", refused.Load(), s)
		}
		return nil
	})
	found("two")
	b.drained()
	b.has(map[string]string{"before": "one", "after": "two"})

	given := filepath.Join(home, "given")
	program := filepath.Join(home, "give")
	b.must(os.Remove(filepath.Join(home, "credentials")))
	b.must(os.WriteFile(filepath.Join(home, "config"), []byte("[default]\ncredential_process = "+program+"\n"), 0o600))
	b.must(core.WriteProgram(program, []byte("#!/bin/sh\ncat "+given+"\n"), 0o700))
	give := func(token string, lasts time.Duration) {
		t.Helper()
		b.must(os.WriteFile(given, fmt.Appendf(nil, `{"Version": 1, "AccessKeyId": "id", "SecretAccessKey": "secret", "SessionToken": %q, "Expiration": %q}`, token, time.Now().Add(lasts).UTC().Format(time.RFC3339)), 0o600))
	}
	give("three", 20*time.Second) // they are about to expire
	valid.Store("three")
	b.file("third", "three")
	b.drained()
	before := refused.Load()
	give("four", time.Hour)
	valid.Store("four")
	b.file("fourth", "four")
	b.drained()
	if n := refused.Load() - before; n > 0 {
		t.Errorf("%d requests were made with credentials that were about to expire", n)
	}
	b.has(map[string]string{"before": "one", "after": "two", "third": "three", "fourth": "four"})
}

// TestBucketBreaksOff reads and writes a file while answers break off in their middle: programs read all of it.
func TestBucketBreaksOff(t *testing.T) {
	server := s3server.StartFound(t)
	var left atomic.Int64
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.Method != http.MethodGet || left.Add(-1) < 0 {
			forward.ServeHTTP(w, r)
			return
		}
		answer := s3server.Forward(r, forward)
		defer answer.Body.Close()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		io.CopyN(w, answer.Body, max(answer.ContentLength/2, 1))
		panic(http.ErrAbortHandler)
	})
	b := startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}})
	text := strings.Repeat("0123456789abcdef", 1<<14)
	b.foreign("f", text)
	left.Store(3)
	if got := b.sees("f"); got != text {
		t.Errorf("read %d bytes of %d", len(got), len(text))
	}
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	readsOf(b.Volume).forget(a.Ino) // else the buffer has it
	left.Store(3)
	b.must(b.Write(t.Context(), a.Ino, 0, []byte("X")))
	b.must(b.Release(0, a.Ino, 1))
	b.drained()
	b.has(map[string]string{"f": "X" + text[1:]})
	if n := left.Load(); n > 0 {
		t.Errorf("%d answers more would have broken off", n)
	}
}

// TestBucketWithoutConditions refuses a bucket that ignores a condition, and leaves nothing there.
func TestBucketWithoutConditions(t *testing.T) {
	server := s3server.StartFound(t)
	for name, ignores := range map[string]func(r *http.Request) bool{
		"creations":    func(r *http.Request) bool { return r.Method == http.MethodPut && r.Header.Get("If-None-Match") != "" },
		"replacements": func(r *http.Request) bool { return r.Method == http.MethodPut && r.Header.Get("If-Match") != "" },
		"uploads":      func(r *http.Request) bool { return r.Method == http.MethodPost },
		"deletions":    func(r *http.Request) bool { return r.Method == http.MethodDelete },
	} {
		t.Run(name, func(t *testing.T) {
			proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
				if ignores(r) {
					s3server.Without(t, r, "If-Match", "If-None-Match")
				}
				forward.ServeHTTP(w, r)
			})
			far := remote.OpenS3(remote.Place{Bucket: server.Bucket, Prefix: name, Endpoint: proxy}, "test", t.TempDir(), nil)
			defer far.Close()
			err := take(far, &Config{ID: "test"}, false, false)
			if !core.IsKind(err, core.Unsupported) || core.Remedy(err) == "" {
				t.Errorf("%v", err)
			}
			if got := tree(t, server.Dir); len(got) > 0 && got[name] != "" {
				t.Errorf("left: %v", got)
			}
		})
	}
	far := remote.OpenS3(remote.Place{Bucket: server.Bucket}, "test", t.TempDir(), nil)
	defer far.Close()
	if err := take(far, &Config{ID: "test"}, false, false); err != nil {
		t.Fatal(err)
	}
	if err := take(far, &Config{ID: "other"}, false, false); !core.IsKind(err, core.Busy) {
		t.Errorf("a second volume: %v", err)
	}
	if err := Leave(far, Config{ID: "other"}); err != nil {
		t.Error(err)
	}
	if err := take(far, &Config{ID: "test"}, true, false); err != nil {
		t.Error(err)
	}
	if err := Leave(far, Config{ID: "test"}); err != nil {
		t.Error(err)
	}
	if err := take(far, &Config{ID: "test"}, true, false); !core.IsKind(err, core.Transient) {
		t.Errorf("its record is missing: %v", err)
	}
}

// TestBucketCredentials replaces credentials that the bucket refuses while a volume drains:
// they are read again.
func TestBucketCredentials(t *testing.T) {
	server := s3server.StartFound(t)
	b := startBucket(t, server, Options{})
	b.sees("none")
	file := filepath.Join(t.TempDir(), "credentials")
	write := func(secret string) {
		b.must(os.WriteFile(file, []byte("[default]\naws_access_key_id = "+s3server.Access+"\naws_secret_access_key = "+secret+"\n"), 0o600))
	}
	write("of yesterday")
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": "", "AWS_SHARED_CREDENTIALS_FILE": file} {
		t.Setenv(name, value)
	}
	other := startBucket(t, server, Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		other.file("f", "text")
	}()
	select {
	case <-done:
		t.Error("the bucket believes a wrong secret")
	case <-time.After(100 * time.Millisecond):
	}
	write(s3server.Secret)
	<-done
	other.drained()
	other.has(map[string]string{"f": "text"})
}

// TestBucketStaleWriter has a process that was thought dead carry out what it was about to: a
// newer version stays, and so does what another program has written.
func TestBucketStaleWriter(t *testing.T) {
	server := s3server.StartFound(t)
	open := func(volume string) *remote.S3 {
		far := remote.OpenS3(remote.Place{Bucket: server.Bucket, Prefix: "p"}, volume, t.TempDir(), nil)
		t.Cleanup(func() { far.Close() })
		return far
	}
	write := func(far *remote.S3, seq uint64, text string) (string, remote.Version) {
		token, v, err := far.Write(t.Context(), "f", 1, remote.Content{Seq: seq, Size: int64(len(text)), At: func(p []byte, off int64) error {
			copy(p, text[off:])
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return token, v
	}
	old, now := open("v"), open("v")
	for seq, size := range []int{10, 300 << 10} { // at once, and in parts
		seq := uint64(seq*10 + 1)
		before, err := now.Stat("f")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		stale, staleV := write(old, seq, strings.Repeat("o", size))
		token, v := write(now, seq+1, strings.Repeat("n", size))
		v, err = now.Publish(token, "f", v, before.Version)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := old.Publish(stale, "f", staleV, before.Version); !errors.Is(err, remote.ErrForeign) {
			t.Errorf("a stale writer got %v", err)
		}
		if err := old.Remove("f", 1, remote.Version{Tag: `"stale"`}); !errors.Is(err, remote.ErrForeign) {
			t.Errorf("a stale removal got %v", err)
		}
		if e, err := now.Stat("f"); err != nil || e.Version != v {
			t.Errorf("%+v, %v", e, err)
		}
		// The same change, once more by another process.
		if again, err := open("v").Publish(token, "f", v, before.Version); err != nil || again != v {
			t.Errorf("published again as %+v, %v", again, err)
		}
	}
}

// TestBucketOpenRemoved reads a file that is open, and was removed here or replaced by others.
func TestBucketOpenRemoved(t *testing.T) {
	server := s3server.StartFound(t)
	b := startBucket(t, server, Options{seenFor: 1})
	b.foreign("f", "before")
	b.foreign("g", "before")
	var ino []uint64
	for _, name := range []string{"f", "g"} {
		a, err := b.names.Lookup(t.Context(), meta.Root, name)
		b.must(err)
		_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
		b.must(err)
		ino = append(ino, a.Ino)
	}
	b.must(b.Remove(t.Context(), who{}, &calls.Request{Ino: meta.Root, Name: "f"}))
	b.drained()
	if p, err := b.Read(t.Context(), ino[0], 0, 100); err != nil || string(p) != "before" {
		t.Errorf("%q, %v", p, err)
	}
	if p, err := b.Read(t.Context(), ino[1], 0, 3); err != nil || string(p) != "bef" {
		t.Errorf("%q, %v", p, err)
	}
	b.foreign("g", "theirs")
	if p, err := b.Read(t.Context(), ino[1], 0, 6); err != nil || string(p) != "theirs" {
		t.Errorf("%q, %v", p, err)
	}
	for _, i := range ino {
		b.must(b.Release(0, i, 1))
	}
	b.has(map[string]string{"g": "theirs"})
}

// TestBucketNames lists a bucket with names that no directory has, and refuses names that the
// bucket cannot have.
func TestBucketNames(t *testing.T) {
	server := s3server.StartFound(t)
	const foreign = "a\x01 b+c%20"
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		q := r.URL.Query()
		if q.Get("delimiter") != "/" {
			forward.ServeHTTP(w, r)
			return
		}
		encoding, key := "", q.Get("prefix")+"&#x1;"
		if q.Get("encoding-type") == "url" {
			encoding, key = "<EncodingType>url</EncodingType>", url.QueryEscape(q.Get("prefix")+foreign)
		}
		if _, err := fmt.Fprintf(w, `<ListBucketResult>%s<Contents><Key>%s</Key><Size>6</Size><ETag>"x"</ETag></Contents></ListBucketResult>`, encoding, key); err != nil {
			t.Error(err)
		}
	})
	b := startBucket(t, server, Options{At: remote.Place{Endpoint: proxy}})
	dir := b.make(remote.Dir, strings.Repeat("d", 200), "")
	var err error
	for range 6 {
		var a calls.Attr
		a, err = b.Make(t.Context(), who{}, remote.Dir, &calls.Request{Ino: dir, Name: strings.Repeat("d", 200), Mode: 0o755})
		if err != nil {
			break
		}
		dir = a.Ino
	}
	if !errors.Is(err, syscall.ENAMETOOLONG) {
		t.Errorf("a long path: %v", err)
	}
	if _, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "\xff", Mode: 0o600}); !errors.Is(err, syscall.EILSEQ) {
		t.Errorf("a name that is no text: %v", err)
	}
	if _, err := b.Make(t.Context(), who{}, remote.File, &calls.Request{Ino: meta.Root, Name: "a\x01", Mode: 0o600}); !errors.Is(err, syscall.EILSEQ) {
		t.Errorf("a name with a control character: %v", err)
	}
	b.drained()
	b.object(foreign, "theirs")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	list, err := b.names.List(ctx, meta.Root)
	if err != nil || !slices.ContainsFunc(list, func(e calls.Entry) bool { return e.Name == foreign }) {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestBucketLeavesNoParts ends a process while it sends a large file: the next one completes
// the file, and no part is left.
func TestBucketLeavesNoParts(t *testing.T) {
	server := s3server.StartFound(t)
	var mu sync.Mutex
	parts, sending, held, free := 0, 0, make(chan struct{}), make(chan struct{})
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		mu.Lock()
		part := r.URL.Query().Has("partNumber")
		if part {
			parts++
			sending++
		}
		hold := part && parts == 2
		mu.Unlock()
		if hold {
			close(held)
			<-free
			panic(http.ErrAbortHandler)
		}
		forward.ServeHTTP(w, r)
		if part {
			mu.Lock()
			defer mu.Unlock()
			sending--
		}
	})
	o := Options{At: remote.Place{Endpoint: proxy}}
	b := startBucket(t, server, o)
	text := strings.Repeat("0123456789abcdef", 20<<16)
	b.file("f", text)
	<-held
	// A part that a server is still writing may outlive the end of its upload.
	testkit.Eventually(t, time.Minute, func() error {
		mu.Lock()
		defer mu.Unlock()
		if sending > 1 {
			return fmt.Errorf("%d parts are sent", sending)
		}
		return nil
	})
	b.crash()
	close(free)
	b.drained()
	b.has(map[string]string{"f": text})
	uploads, err := server.Client().ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String(server.Bucket)})
	if err != nil || len(uploads.Uploads) > 0 {
		t.Errorf("left in the bucket: %+v, %v", uploads, err)
	}
}

// TestBucketMovesAgain has others write at the old name after a move has copied, and before it is
// tried again: what they wrote stays.
func TestBucketMovesAgain(t *testing.T) {
	server := s3server.StartFound(t)
	var refuse atomic.Bool
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if refuse.Load() && r.Method == http.MethodDelete {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	})
	far := remote.OpenS3(remote.Place{Bucket: server.Bucket, Endpoint: proxy}, "test", t.TempDir(), nil)
	defer far.Close()
	put := func(key, text string) {
		t.Helper()
		if _, err := server.Client().PutObject(t.Context(), &s3.PutObjectInput{Bucket: &server.Bucket, Key: &key, Body: strings.NewReader(text)}); err != nil {
			t.Fatal(err)
		}
	}
	put("f", "ours")
	put("d/f", "ours")
	f, err := far.Stat("f")
	if err != nil {
		t.Fatal(err)
	}
	for seq, move := range []func(seq uint64) error{
		func(seq uint64) error { _, err := far.Move("f", "g", seq, f.Version, remote.Version{}); return err },
		func(seq uint64) error {
			_, err := far.MoveDir("d", "e", seq, remote.Version{Tag: "/"}, false)
			return err
		},
	} {
		refuse.Store(true)
		if err := move(uint64(seq)); err == nil {
			t.Error("it succeeds although nothing can be removed")
		}
		put([]string{"f", "d/f"}[seq], "theirs")
		refuse.Store(false)
		if err := move(uint64(seq)); err != nil {
			t.Error(err)
		}
	}
	got := tree(t, server.Dir)
	for key, want := range map[string]string{"f": "theirs", "g": "ours", "d/f": "theirs", "e/f": "ours"} {
		if found := got[filepath.Join(server.Bucket, key)] + got[key]; found != want {
			t.Errorf("%s: %q instead of %q in %v", key, found, want, got)
		}
	}
}

// TestBucketRefusesToListUploads sends data although a noted upload cannot be looked for: the note
// stays, and nothing waits for that.
func TestBucketRefusesToListUploads(t *testing.T) {
	server := s3server.StartFound(t)
	proxy := server.Proxy(t, func(w http.ResponseWriter, r *http.Request, forward http.Handler) {
		if r.URL.Query().Has("uploads") && r.Method == http.MethodGet {
			w.WriteHeader(http.StatusForbidden)
			if _, err := fmt.Fprint(w, "<Error><Code>AccessDenied</Code></Error>"); err != nil {
				t.Error(err)
			}
			return
		}
		forward.ServeHTTP(w, r)
	})
	o := Options{At: remote.Place{Endpoint: proxy}}
	b := startBucket(t, server, o)
	note := stored.NewNote(b.o.Notes, stored.Upload{Place: stored.Place{Bucket: server.Bucket, Endpoint: proxy}, Key: "k"})
	b.must(note.Write())
	b.file("f", "text")
	b.drained()
	b.has(map[string]string{"f": "text"})
	if left, err := stored.Uploads(b.o.Notes); err != nil || len(left) != 1 {
		t.Errorf("noted: %+v, %v", left, err)
	}
	b.must(b.tree.RemoveRecord())
}
