package filestream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/bee-hpc/bee/internal/chunk"
	"golang.org/x/sync/errgroup"
)

// sum names a chunk by the first half of its SHA-256.
type sum [16]byte

func sumOf(b []byte) sum {
	whole := sha256.Sum256(b)
	return sum(whole[:16])
}

// Known are the chunks that a receiver has already: a sender names them instead
// of sending them.
type Known struct {
	cutter chunk.Cutter
	sums   map[sum]struct{}
	// total tells that the receiver knows nothing, and wants to be told first how
	// much there is.
	total bool
}

// Basis is what a receiver has of an earlier copy, by chunks.
type Basis struct {
	bits  int
	files []string
	at    map[sum]place
	open  *os.File // the file read last
	last  uint32
	run   run
	seed  maphash.Seed // of the checks
}

// place is where a chunk lies.
type place struct {
	file   uint32
	length uint32
	offset int64
	// check tells whether it still lies there: its name would tell as well, and
	// takes ten times as long.
	check uint64
}

// NewBasis reads what there is already of what is to be received at path: what
// arrived before the way broke, what is there, and other copies. Nil where there
// is nothing. It holds some 60 bytes for each chunk in memory, of which there
// are a million or two at most.
func NewBasis(ctx context.Context, path string, others ...string) (*Basis, error) {
	adopt(path)
	b := &Basis{seed: maphash.MakeSeed()}
	var sizes []int64
	total := int64(0)
	for _, root := range append([]string{partial(path), path}, others...) {
		if _, err := os.Lstat(root); errors.Is(err, fs.ErrNotExist) { // as "" is
			continue
		}
		err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
			if err != nil || !e.Type().IsRegular() {
				return err
			}
			info, err := e.Info()
			if err == nil {
				b.files, sizes, total = append(b.files, name), append(sizes, info.Size()), total+info.Size()
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if total == 0 {
		return nil, nil
	}
	b.bits = chunk.BitsFor(total)
	b.at = make(map[sum]place, min(total>>b.bits, maxKnown))
	if err := b.read(ctx, sizes); err != nil {
		return nil, err
	}
	if len(b.at) > maxKnown { // of many terabytes: telling all of it would not pay
		return nil, nil
	}
	return b, nil
}

// stretch is what a processor reads of a file at a time.
type stretch struct {
	file     int
	from, to int64
}

// read finds the chunks of all files, with all processors.
func (b *Basis) read(ctx context.Context, sizes []int64) error {
	c, parts := chunk.New(b.bits), make(chan stretch)
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer close(parts)
		for i, size := range sizes {
			for from := int64(0); from < size; from = spanEnd(c, from) {
				select {
				case parts <- stretch{i, from, min(spanEnd(c, from), size)}:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	var mu sync.Mutex
	for range runtime.GOMAXPROCS(0) {
		all.Go(func() error {
			s := &span{}
			for p := range parts {
				if err := b.chunksOf(p, s, c, &mu); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return all.Wait()
}

func (b *Basis) chunksOf(p stretch, s *span, c chunk.Cutter, mu *sync.Mutex) error {
	f, err := os.Open(b.files[p.file])
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = segments(f, p.from, p.to, func(from, to int64) (int64, error) {
		s.read(f, from, to, c)
		found := make(map[sum]place, len(s.chunks))
		err := s.each(func(at int64, data []byte, name sum) error {
			found[name] = place{file: uint32(p.file), offset: at, length: uint32(len(data)), check: maphash.Bytes(b.seed, data)}
			return nil
		})
		mu.Lock()
		defer mu.Unlock()
		maps.Copy(b.at, found)
		return s.end(), err
	})
	return err
}

// maxKnown bounds what a sender takes: no more than a Basis has.
const maxKnown = 1 << 23

// WriteTo tells a sender what is known, nothing where b is nil; see ReadKnown.
func (b *Basis) WriteTo(w io.Writer) (int64, error) {
	if b == nil {
		b = &Basis{bits: chunk.SmallestBits}
	}
	out := make([]byte, 8, 8+len(b.at)*len(sum{}))
	binary.LittleEndian.PutUint32(out, uint32(b.bits))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(b.at)))
	for s := range b.at {
		out = append(out, s[:]...)
	}
	n, err := w.Write(out)
	return int64(n), err
}

// ReadKnown reads what a Basis has written, and no byte more; nil where nothing
// is known.
func ReadKnown(r io.Reader) (*Known, error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, cut(err)
	}
	bits, n := binary.LittleEndian.Uint32(head[:]), binary.LittleEndian.Uint32(head[4:])
	if bits == 0 && n == 0 {
		return &Known{total: true}, nil
	}
	if bits < chunk.SmallestBits || bits > chunk.LargestBits || n > maxKnown {
		return nil, errDamaged
	}
	if n == 0 {
		return nil, nil
	}
	k := &Known{cutter: chunk.New(int(bits)), sums: make(map[sum]struct{}, min(n, 1<<16))}
	names := make([]byte, min(n, 1<<12)*uint32(len(sum{})))
	for left := int(n) * len(sum{}); left > 0; left -= len(names) {
		names = names[:min(left, len(names))]
		if _, err := io.ReadFull(r, names); err != nil {
			return nil, cut(err)
		}
		for s := range slices.Chunk(names, len(sum{})) {
			k.sums[sum(s)] = struct{}{}
		}
	}
	return k, nil
}
