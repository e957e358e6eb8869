package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/klauspost/compress/zstd"
)

const flatID = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// flat is what a node sends of an image, uncompressed.
func flat(t testing.TB, r record, content []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	if err := wire.WriteMessage(&out, r); err != nil {
		t.Fatal(err)
	}
	p := &pieceWriter{w: &out, sum: sha256.New(), buf: make([]byte, 4, 4+maxPiece)}
	if _, err := p.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// packed compresses what is sent.
func packed(t testing.TB, raw []byte) []byte {
	t.Helper()
	z, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return z.EncodeAll(raw, nil)
}

func archiveOf(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range headers {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	w.Flush() //nolint:errcheck // a file may lack its content
	if len(headers) == 0 {
		w.Close()
	}
	return out.Bytes()
}

// again repeats what was compressed, so many times.
func again(first, part []byte, n int) io.Reader {
	all := []io.Reader{bytes.NewReader(first)}
	for range n {
		all = append(all, bytes.NewReader(part))
	}
	return io.MultiReader(all...)
}

func named(name string) record { return record{Image: core.Image{ID: flatID, Ref: name}} }

// TestHostileFlatStreams: another node of a run sends them. Each is refused at little cost,
// and leaves nothing in the cache.
func TestHostileFlatStreams(t *testing.T) {
	none := archiveOf(t)
	zeros := packed(t, make([]byte, 64<<20)) // of some kilobytes
	var head bytes.Buffer
	if err := wire.WriteMessage(&head, named("x:1")); err != nil {
		t.Fatal(err)
	}
	piece := append([]byte{0, 0, 16, 0}, make([]byte, maxPiece)...) // of zeros
	values := []byte(`{"id": "` + flatID + `", "layers": [` + strings.Repeat(`"",`, 1<<20) + `""]}`)
	for name, from := range map[string]io.Reader{
		"a piece without end":       bytes.NewReader(packed(t, append(head.Bytes(), 255, 255, 255, 255))),
		"padding without end":       again(packed(t, head.Bytes()), packed(t, bytes.Repeat(piece, 64)), 10000),
		"data behind the digest":    again(packed(t, flat(t, named("x:1"), none)), zeros, 10000),
		"an archive that is packed": bytes.NewReader(packed(t, flat(t, named("x:1"), packed(t, none)))),
		"a file of exabytes":        bytes.NewReader(packed(t, flat(t, named("x:1"), archiveOf(t, tar.Header{Name: "f", Size: 1 << 60, Mode: 0o600})))),
		"a text that steers":        bytes.NewReader(packed(t, flat(t, named("x\x1b]0;y\a"), none))),
		"a reference without end":   bytes.NewReader(packed(t, flat(t, named(strings.Repeat("x", 1<<20)), none))),
		"a record of many values":   bytes.NewReader(packed(t, append([]byte{0, byte(len(values) >> 16), byte(len(values) >> 8), byte(len(values))}, values...))),
		"another digest":            bytes.NewReader(packed(t, flip(flat(t, named("x:1"), none), len(flat(t, named("x:1"), none))-1))),
		"an id that is a path":      bytes.NewReader(packed(t, flat(t, record{Image: core.Image{ID: "sha256:../../x"}}, none))),
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t)
			failed := make(chan error, 1)
			go func() {
				_, err := s.ImportFlat(t.Context(), from)
				failed <- err
			}()
			select {
			case err := <-failed:
				if err == nil {
					t.Error("it was taken in")
				}
			case <-time.After(time.Minute):
				t.Fatal("it is still being read")
			}
			for _, dir := range []string{"tmp", "trees", "images"} {
				if left, err := os.ReadDir(filepath.Join(s.Dir(), dir)); err != nil || len(left) > 0 {
					t.Errorf("%s has %v, %v", dir, left, err)
				}
			}
		})
	}
}

// TestAFlatStreamThatIsNotNeeded is passed on to others, and not unpacked.
func TestAFlatStreamThatIsNotNeeded(t *testing.T) {
	s := store(t)
	good := packed(t, flat(t, named("x:1"), archiveOf(t)))
	if _, err := s.ImportFlat(t.Context(), bytes.NewReader(good)); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	stream := again(good, packed(t, make([]byte, 64<<20)), 10000) // 640 GB
	if i, err := s.ImportFlat(t.Context(), stream); err != nil || i.ID != flatID {
		t.Errorf("got %+v, %v", i, err)
	}
	if _, err := stream.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("it was not read to its end: %v", err)
	}
	if took := time.Since(begun); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

// FuzzFlat imports a stream that anybody may have sent. What it leaves is an image of that
// id, or nothing.
func FuzzFlat(f *testing.F) {
	f.Add(flat(f, named("x:1"), archiveOf(f)))
	f.Add(flat(f, named("x:1"), archiveOf(f, tar.Header{Name: "../x", Typeflag: tar.TypeSymlink, Linkname: "/"}, tar.Header{Name: "../x/y", Size: 1 << 40})))
	f.Add([]byte{0, 0, 0, 2, '{', '}', 255, 255, 255, 255})
	temp := f.TempDir()
	f.Fuzz(func(t *testing.T, raw []byte) {
		top, err := os.MkdirTemp(temp, "fuzz-")
		if err != nil {
			t.Fatal(err)
		}
		defer fsutil.RemoveAll(top)
		s, err := Open(filepath.Join(top, "cache"), nil)
		if err != nil {
			t.Fatal(err)
		}
		s.limits = unpack.Limits{Bytes: 1 << 20, Entries: 1000}
		i, err := s.ImportFlat(t.Context(), bytes.NewReader(packed(t, raw)))
		var r record
		if text, rerr := os.ReadFile(s.dir.path("images", flatID) + ".json"); rerr == nil && json.Unmarshal(text, &r) != nil {
			t.Errorf("its record is %q", text)
		}
		entries, _ := os.ReadDir(top)
		if len(entries) != 1 || err == nil && !s.Has(i.ID) {
			t.Errorf("beside the cache there are %v, and of %+v nothing is there: %v", entries, i, err)
		}
	})
}
