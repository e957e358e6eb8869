package image

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	fakeregistry "github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// noise is a file that does not compress, and so takes long to come.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

func tarOf(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(func(yield func(string) bool) {
		for k := range files {
			if !yield(k) {
				return
			}
		}
	}) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name])), ModTime: time.Unix(1, 0)}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// imageOf makes an image with a layer for each set of files.
func imageOf(t testing.TB, platform v1.Platform, layers ...map[string][]byte) v1.Image {
	t.Helper()
	var list []v1.Layer
	for _, files := range layers {
		raw := tarOf(t, files)
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, l)
	}
	i, err := mutate.AppendLayers(empty.Image, list...)
	if err != nil {
		t.Fatal(err)
	}
	file, err := i.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Variant, file.Config = platform.OS, platform.Architecture, platform.Variant, v1.Config{Cmd: []string{"/x"}}
	if i, err = mutate.ConfigFile(i, file); err != nil {
		t.Fatal(err)
	}
	return i
}

// host is the platform that is meant where none is named.
var host = v1.Platform{OS: "linux", Architecture: runtime.GOARCH}

// faulty is a registry in front of which a test puts its faults.
type faulty struct {
	http.Handler
	mu     sync.Mutex
	before func(w http.ResponseWriter, r *http.Request) (answered bool)
	gets   []string // what was asked of blobs: digest, range
}

func newFaulty(t testing.TB) (*faulty, string) {
	f := &faulty{Handler: fakeregistry.New(fakeregistry.Logger(log.New(io.Discard, "", 0)))}
	s := httptest.NewServer(f)
	t.Cleanup(s.Close)
	return f, strings.TrimPrefix(s.URL, "http://")
}

func (f *faulty) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	before := f.before
	if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") {
		f.gets = append(f.gets, r.Header.Get("Range"))
	}
	f.mu.Unlock()
	if before == nil || !before(w, r) {
		f.Handler.ServeHTTP(w, r)
	}
}

func (f *faulty) set(before func(w http.ResponseWriter, r *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.gets = before, nil
}

func write(t testing.TB, ref string, i v1.Image) {
	t.Helper()
	parsed, err := name.ParseReference(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(parsed, i); err != nil {
		t.Fatal(err)
	}
}

// cut answers with the part of a blob that was asked for, but breaks off.
func cut(f *faulty, after int, honourRange bool) func(w http.ResponseWriter, r *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") {
			return false
		}
		ask := r.Clone(r.Context())
		ask.Header.Del("Range")
		all := httptest.NewRecorder()
		f.Handler.ServeHTTP(all, ask)
		body, from := all.Body.Bytes(), 0
		if len(body) < after { // a configuration
			w.Write(body)
			return true
		}
		if n, _ := fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-", &from); n == 1 && honourRange {
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(body)-1, len(body)))
			w.Header().Set("Content-Length", fmt.Sprint(len(body)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			from = 0
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		}
		if rest := body[from:]; len(rest) <= after || !honourRange && r.Header.Get("Range") != "" {
			w.Write(rest)
			return true
		}
		w.Write(body[from : from+after])
		panic(http.ErrAbortHandler)
	}
}
