package s3

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/s3client"
	"github.com/bee-hpc/bee/internal/treesync"
)

// kept is a bucket that anyone who has it fills at will.
type kept map[string][]byte

func (k kept) Put(_ context.Context, name string, data []byte) error { k[name] = data; return nil }

func (k kept) Get(_ context.Context, name string, from, length int64) ([]byte, error) {
	raw, is := k[name]
	if !is {
		return nil, &core.Error{Kind: core.NotFound, Op: "read", Object: name}
	}
	if from < 0 {
		return raw[max(0, int64(len(raw))+from):], nil
	}
	raw = raw[min(from, int64(len(raw))):]
	if length > 0 {
		raw = raw[:min(length, int64(len(raw)))]
	}
	return raw, nil
}

func (k kept) List(_ context.Context, prefix string) (map[string]int64, error) {
	found := map[string]int64{}
	for name, raw := range k {
		if strings.HasPrefix(name, prefix) {
			found[name] = int64(len(raw))
		}
	}
	return found, nil
}

func (k kept) Tops(context.Context) ([]string, error) { return nil, nil }

func (k kept) Sign(context.Context, driver.ObjectOp, string, int64) (string, error) {
	return "http://127.0.0.1:1/", nil
}

func (k kept) Here() bool { return false }

func (k kept) Delete(_ context.Context, names []string) error {
	for _, name := range names {
		delete(k, name)
	}
	return nil
}

// forgedPack makes a pack whose index claims chunks of any length.
func forgedPack(data []byte, lengths ...uint32) (name string, raw []byte) {
	p := pack{data: data}
	for i, n := range lengths {
		chunk := treesync.NameOf([]byte{byte(i)})
		p.index = append(p.index, chunk[:]...)
		p.index = binary.LittleEndian.AppendUint32(p.index, n)
	}
	return p.finish(12)
}

// TestForgedPacks: an index of chunks that have no place in their pack neither crashes who
// reads them nor has him get more than an object can have.
func TestForgedPacks(t *testing.T) {
	for name, lengths := range map[string][]uint32{
		"more than there is":        {1 << 20},
		"four gigabytes":            {1<<32 - 1},
		"so much that it overflows": {1<<32 - 16, 32, 8},
		"less than there is":        {4},
		"none, of many":             make([]uint32, 100),
	} {
		t.Run(name, func(t *testing.T) {
			objects := kept{}
			pack, raw := forgedPack([]byte("16 bytes of data"), lengths...)
			objects["a@b/"+packs+pack] = raw
			s := &checkpoints{&bucket{"s3://x", objects}, "a@b/"}
			if k, err := s.load(t.Context(), []object{{Name: pack, Size: int64(len(raw))}}, true); !isDamage(err) {
				t.Errorf("it was read: %v", err)
				var all []treesync.Name
				for chunk := range k.at {
					all = append(all, chunk)
				}
				k.Get(t.Context(), all) //nolint:errcheck // a panic is what is looked for
			}
		})
	}
	for _, size := range []int64{-1, 0, 3, mostObject + 1, 1 << 62} {
		s := &checkpoints{&bucket{"s3://x", kept{}}, "a@b/"}
		if _, err := s.load(t.Context(), []object{{Name: "12-00", Size: size}}, true); !isDamage(err) {
			t.Errorf("a pack of %d bytes: %v", size, err)
		}
	}
}

// TestABucketThatSendsWithoutEnd: no answer takes more memory than an object can have.
func TestABucketThatSendsWithoutEnd(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		part := bytes.Repeat([]byte(" "), 1<<20)
		if r.URL.Query().Has("list-type") {
			io.WriteString(w, "<ListBucketResult>")
			part = bytes.Repeat([]byte("<X></X> "), 1<<17)
		}
		for {
			n, err := w.Write(part)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "x")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "y")
	objects, err := NewS3(t.Context(), Settings{Bucket: "b", Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	if raw, err := objects.Get(t.Context(), "x", -86<<30, 0); err != nil || len(raw) > mostObject {
		t.Errorf("the end of an object: %d bytes, %v", len(raw), err)
	}
	if n := sent.Swap(0); n > 2*mostObject {
		t.Errorf("%d MiB of an object were read", n>>20)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if _, err := objects.List(ctx, ""); !core.IsKind(err, core.Invalid) {
		t.Errorf("a list: %v", err)
	}
	if n := sent.Load(); n > tries*4*s3client.MostPage {
		t.Errorf("%d MiB of a list were read", n>>20)
	}
}

// FuzzBucket reads a manifest and an index that anybody may have written, with the digests
// that make them whole.
func FuzzBucket(f *testing.F) {
	f.Add([]byte(`{"version": 1, "attempt": 1, "bits": 12, "packs": [{"name": "12-00", "size": 100}], "tree": []}`), []byte(nil), int64(0))
	f.Add([]byte(`{"version": 1, "packs": [{"size": -1}]}`), bytes.Repeat([]byte{255}, 2*entryBytes), int64(1<<40))
	f.Fuzz(func(t *testing.T, text, index []byte, size int64) {
		m := parseManifest(driver.Generation{Attempt: 1}, append(append(bytes.Clone(text), '\n'), digest(text)...))
		if !m.broken && m.Manifest.Tree == "" {
			t.Error("its tree has no digest")
		}
		tail := binary.LittleEndian.AppendUint32(bytes.Clone(index), uint32(len(index)/entryBytes))
		tail = append(tail, packMagic...)
		name := fmt.Sprintf("12-%s", digest(index))
		read, need, err := parseIndex(name, size, tail)
		if err != nil || need > 0 {
			return
		}
		eachEntry(read, func(_ treesync.Name, offset, length uint32) {
			if int64(offset)+int64(length) > size {
				t.Errorf("a chunk ends at %d of %d", int64(offset)+int64(length), size)
			}
		})
	})
}

// TestAManifestOfMuchMemory is broken, as it has too many values for its size.
func TestAManifestOfMuchMemory(t *testing.T) {
	m := manifest{Version: manifestVersion, Packs: make([]object, 4)}
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(raw), `"packs":[`, `"packs":[`+strings.Repeat("{},", 1<<20), 1)
	if m := parseManifest(driver.Generation{Attempt: 1}, []byte(text+"\n"+digest([]byte(text)))); !m.broken {
		t.Errorf("it was read, with %d packs", len(m.Packs))
	}
}
