package filestream

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"github.com/bee-hpc/bee/internal/chunk"
	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
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
}

// place is where a chunk lies.
type place struct {
	file   uint32
	length uint32
	offset int64
}

// NewBasis reads what there is already of what is to be received at path: what
// arrived before the way broke, what is there, and other copies. Nil where there
// is nothing. It holds some 50 bytes for each chunk in memory, of which there
// are a million or two at most.
func NewBasis(ctx context.Context, path string, others ...string) (*Basis, error) {
	adopt(path)
	b := &Basis{at: map[sum]place{}}
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
				b.files, total = append(b.files, name), total+info.Size()
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
	var (
		mu   sync.Mutex
		wg   sync.WaitGroup
		next = make(chan int)
		errs = make([]error, len(b.files))
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := range next {
				found, err := chunksOf(ctx, b.files[i], chunk.New(b.bits))
				mu.Lock()
				for s, p := range found {
					p.file = uint32(i)
					b.at[s] = p
				}
				errs[i] = err
				mu.Unlock()
			}
		})
	}
	for i := range b.files {
		next <- i
	}
	close(next)
	wg.Wait()
	if len(b.at) > maxKnown { // of many terabytes: telling all of it would not pay
		return nil, nil
	}
	return b, errors.Join(errs...)
}

// chunksOf reads a file's chunks.
func chunksOf(ctx context.Context, name string, c chunk.Cutter) (map[sum]place, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	found := map[sum]place{}
	_, err = segments(f, &meta{size: info.Size()}, func(from, to int64) (int64, error) {
		return eachChunk(ctx, f, from, to, c, func(at int64, b []byte) error {
			found[sumOf(b)] = place{offset: at, length: uint32(len(b))}
			return nil
		})
	})
	return found, err
}

// eachChunk gives the chunks of a stretch of f, and the offset that it came to:
// less than to where the file has become shorter.
func eachChunk(ctx context.Context, f io.ReaderAt, from, to int64, c chunk.Cutter, do func(at int64, b []byte) error) (int64, error) {
	buf := make([]byte, min(int64(max(blockSize, 2*c.Most())), to-from))
	have := 0
	for from < to {
		if err := ctx.Err(); err != nil {
			return from, err
		}
		want := min(int64(len(buf)), to-from)
		n, err := f.ReadAt(buf[have:want], from+int64(have))
		have += n
		ended := errors.Is(err, io.EOF)
		if err != nil && !ended {
			return from, err
		}
		ended = ended || int64(have) == to-from
		b := buf[:have]
		for len(b) >= c.Most() || ended && len(b) > 0 {
			n := c.Cut(b)
			if err := do(from, b[:n]); err != nil {
				return from, err
			}
			b, from = b[n:], from+int64(n)
		}
		have = copy(buf, b)
		if ended {
			return from, nil
		}
	}
	return from, nil
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
	var s sum
	for range n {
		if _, err := io.ReadFull(r, s[:]); err != nil {
			return nil, cut(err)
		}
		k.sums[s] = struct{}{}
	}
	return k, nil
}

// copyTo puts a chunk of the basis into a file.
func (b *Basis) copyTo(out *os.File, at int64, s sum) error {
	p, ok := b.at[s]
	if !ok {
		return errRecord
	}
	if b.open == nil || b.last != p.file {
		b.close()
		f, err := os.OpenFile(b.files[p.file], os.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		b.open, b.last = f, p.file
	}
	buf := make([]byte, p.length)
	if _, err := b.open.ReadAt(buf, p.offset); err != nil {
		return fmt.Errorf("read the earlier copy: %w", err)
	}
	if sumOf(buf) != s {
		return &core.Error{Kind: core.Transient, Op: "read the earlier copy", Object: b.files[p.file], Err: errors.New("it has changed meanwhile")}
	}
	_, err := out.WriteAt(buf, at)
	return err
}

func (b *Basis) close() {
	if b != nil && b.open != nil {
		b.open.Close()
		b.open = nil
	}
}
