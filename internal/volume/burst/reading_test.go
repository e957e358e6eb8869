package burst

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/testkit/s3server"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// TestReadTwice reads what only a bucket has: the second time, it comes from the buffer, as long as the bucket has that
// version, and what another program has written comes from the bucket.
func TestReadTwice(t *testing.T) {
	server := s3server.StartFound(t)
	b := startBucket(t, server, Options{})
	text := strings.Repeat("0123456789abcdef", 20_000)
	b.foreign("f", text)
	for i := range 3 {
		if got := b.sees("f"); got != text {
			t.Fatalf("read %d bytes", len(got))
		}
		if s := b.Status(); s.Misses != int64(len(text)) || s.Hits != int64(i*len(text)) || s.Cached < int64(len(text)) && i > 1 {
			t.Errorf("%d from the buffer, %d from the remote, %d kept", s.Hits, s.Misses, s.Cached)
		}
	}
	b.foreign("f", "theirs")
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	if got := b.sees("f"); got != "theirs" {
		t.Errorf("f has %d bytes", len(got))
	}
	b.must(b.Release(0, a.Ino, 1))
	b.file("f", "ours")
	b.drained()
	testkit.Eventually(t, 10*time.Second, func() error {
		if s := b.Status(); s.Cached != 0 { // the journal has it
			return fmt.Errorf("%d bytes are kept", s.Cached)
		}
		return nil
	})
}

// TestWritersTakeTheRoom: what was read goes before a program that writes waits, and what is undrained stays.
func TestWritersTakeTheRoom(t *testing.T) {
	b := start(t, Options{Room: 16 << 20, keep: true})
	block := strings.Repeat("x", 1<<20)
	for i := range 12 {
		b.foreign(fmt.Sprint("cold", i), block)
	}
	for i := range 12 {
		b.sees(fmt.Sprint("cold", i))
	}
	b.cache.Wait()
	if s := b.Status(); s.Cached < 9<<20 || s.Cached+s.Buffer > s.Room/100*slowed {
		t.Errorf("%d bytes are kept beside %d", s.Cached, s.Buffer)
	}
	b.gate.set(errors.New("the line is cut"))
	for i := range 14 {
		b.file(fmt.Sprint("hot", i), block)
	}
	if s := b.Status(); s.Cached > 0 || s.Undrained < 14<<20 {
		t.Errorf("%d bytes are kept, and %d undrained", s.Cached, s.Undrained)
	}
	b.gate.set(nil)
	b.drained()
	for i := range 4 {
		b.sees(fmt.Sprint("cold", i))
	}
	b.room.balanced = time.Time{}
	b.must(b.room.balance())
	for i := range 4 {
		b.sees(fmt.Sprint("cold", i))
	}
	b.cache.Wait()
	if s := b.Status(); s.Cached < 3<<20 {
		t.Errorf("%d bytes are kept beside what is drained", s.Cached)
	}
}

// inPlace is what a program writes into a file.
const inPlace = "IN ITS PLACE"

// reader is what one program reads, while another changes the remote.
type reader struct {
	*bench
	r    *rand.Rand
	seed uint64
	now  map[string][]byte // what the volume shows
	ours map[string]bool   // files of ours beside which others have written: they stay as they are
}

func (w *reader) content() []byte {
	p := make([]byte, w.r.IntN(300_000))
	for i := 0; i < len(p); i += 1 + i/50 {
		p[i] = byte(w.r.Uint32())
	}
	return p
}

// TestReadsAreNeverOld plays random histories of a program that reads and writes, of others that change the remote,
// and of a buffer that drops what it likes and dies: each read gives what is there then.
func TestReadsAreNeverOld(t *testing.T) {
	neverOld(t, 6, 120, func(t *testing.T) *bench {
		return start(t, Options{Room: 2 << 20, segmentSize: 64 << 10, keep: true, seenFor: 1})
	})
}

// TestReadsOfBucketsAreNeverOld plays them with a bucket.
func TestReadsOfBucketsAreNeverOld(t *testing.T) {
	server := s3server.StartFound(t)
	neverOld(t, 1, 60, func(t *testing.T) *bench {
		return startBucket(t, server, Options{Room: 2 << 20, segmentSize: 64 << 10, seenFor: 1})
	})
}

func neverOld(t *testing.T, n, steps int, start func(t *testing.T) *bench) {
	if testkit.Everything() {
		n *= 40
	}
	for i := range n {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			seed := uint64(time.Now().UnixNano()) // any number will do
			w := &reader{bench: start(t), r: rand.New(rand.NewPCG(seed, 3)), seed: seed, now: map[string][]byte{}, ours: map[string]bool{}}
			for range steps {
				w.step()
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
			w.gate.set(nil)
			w.drained()
			for _, name := range slices.Sorted(maps.Keys(w.now)) {
				w.reads(name, 0, 1<<20)
			}
		})
	}
}

func (w *reader) step() {
	name := string(rune('a' + w.r.IntN(5)))
	_, there := w.now[name]
	switch w.r.IntN(16) {
	case 0:
		w.must(w.room.reclaim(1 << 40))
	case 1:
		w.room.release(w.r.Int64N(1 << 20))
	case 2:
		w.cache.Wait()
	case 3:
		w.drained()
		w.crash()
	case 4, 5: // another program replaces it, or writes into it
		if w.ours[name] {
			return
		}
		text := w.content()
		if info, err := os.Stat(filepath.Join(w.far, name)); w.bucket == nil && err == nil && info.Size() != int64(len(text)) && w.r.IntN(2) == 0 {
			w.must(os.WriteFile(filepath.Join(w.far, name), text, 0o600))
		} else {
			w.foreign(name, string(text))
		}
		w.now[name] = text
	case 6: // another program removes it
		if there && !w.ours[name] {
			w.gone(name)
			delete(w.now, name)
		}
	case 7, 8: // ours, and perhaps another program writes it before it is drained
		if w.ours[name] {
			return
		}
		w.reads(name, 0, 1) // as it is now
		conflict := there && w.bucket == nil && w.r.IntN(4) == 0
		if conflict {
			w.gate.set(errors.New("the line is cut"))
		}
		text := w.content()
		w.file(name, string(text))
		w.now[name] = text
		if conflict {
			w.foreign(name, string(w.content()))
			w.ours[name] = true
			w.gate.set(nil)
		}
		w.drained()
	case 9: // ours, in its place
		if len(w.now[name]) == 0 || w.ours[name] {
			return
		}
		w.reads(name, 0, 1) // names of others are seen in a list
		a, err := w.names.Lookup(w.Context(), meta.Root, name)
		w.must(err)
		_, err = w.OpenFile(w.Context(), who{}, a.Ino, false)
		w.must(err)
		off := w.r.IntN(len(w.now[name]))
		w.must(w.Write(w.Context(), a.Ino, int64(off), []byte(inPlace)))
		text := slices.Clone(w.now[name][:off])
		text = append(text, inPlace...)
		if len(text) < len(w.now[name]) {
			text = append(text, w.now[name][len(text):]...)
		}
		w.now[name] = text
		w.must(w.Flush(a.Ino))
		w.must(w.Release(0, a.Ino, 1))
		w.drained()
	default:
		w.reads(name, w.r.Int64N(300_000), w.r.Int64N(300_000))
	}
}

// reads reads from a file, as a program that opens it.
func (w *reader) reads(name string, off, size int64) {
	w.Helper()
	want, there := w.now[name]
	list, err := w.names.List(w.Context(), meta.Root) // attributes count for a while, and names
	w.must(err)
	i := slices.IndexFunc(list, func(e calls.Entry) bool { return e.Name == name })
	if (i >= 0) != there {
		w.Errorf("%s is listed: %t", name, i >= 0)
		return
	}
	if !there {
		return
	}
	ino := list[i].Attr.Ino
	a, err := w.OpenFile(w.Context(), who{}, ino, false)
	w.must(err)
	defer func() { w.must(w.Release(0, ino, 1)) }()
	if a.Size != int64(len(want)) {
		w.Errorf("%s has %d bytes instead of %d", name, a.Size, len(want))
		return
	}
	got, err := w.Read(w.Context(), ino, off, size)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, context.Canceled) {
		w.Errorf("read %s: %v", name, err)
		return
	}
	w.must(err)
	want = want[min(off, int64(len(want))):min(off+size, int64(len(want)))]
	if !bytes.Equal(got, want) {
		w.Errorf("%s at %d: %d bytes instead of %d, or other ones", name, off, len(got), len(want))
	}
}

// TestVersionGoneWhileRead: a file that is replaced while a program has it open is read as it is now.
func TestVersionGoneWhileRead(t *testing.T) {
	server := s3server.StartFound(t)
	b := startBucket(t, server, Options{seenFor: time.Nanosecond})
	b.foreign("f", strings.Repeat("a", 200_000))
	a, err := b.names.Lookup(t.Context(), meta.Root, "f")
	b.must(err)
	_, err = b.OpenFile(t.Context(), who{}, a.Ino, false)
	b.must(err)
	read := func(off, size int64) string {
		p, err := b.Read(t.Context(), a.Ino, off, size)
		b.must(err)
		return string(p)
	}
	if got := read(0, 10); got != "aaaaaaaaaa" {
		t.Errorf("read %q", got)
	}
	b.foreign("f", strings.Repeat("b", 200_000))
	for _, off := range []int64{0, 100, 150_000} { // what was read, and what was not
		if got := read(off, 10); got != "bbbbbbbbbb" {
			t.Errorf("read %q at %d", got, off)
		}
	}
	b.must(b.Release(0, a.Ino, 1))
}
