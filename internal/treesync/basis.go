package treesync

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/bee-hpc/bee/internal/chunk"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// Basis is what a receiver has of an earlier copy: files that the sender may find to
// be as they were, and all others by chunks.
type Basis struct {
	files []earlier
	index *index // of the copy at root, if any
	root  string
	// there are the files of the index that are whole, accepted those of them that
	// the sender has as they were.
	there, accepted numbers

	bits int
	key  *nameKey // nil: chunks are named by SHA-256
	at   map[sum]place
	open *os.File // the file read last
	last uint32
	run  run
	seed maphash.Seed // of the checks
}

// earlier is a file of an earlier copy.
type earlier struct {
	root   string // of the copy
	name   string
	size   int64
	number int // in the index, or -1
}

// openFile opens the file, over no link in the copy.
func (e earlier) openFile() (*os.File, error) {
	in, err := fsutil.OpenRoot(filepath.Dir(e.root))
	if err != nil {
		return nil, err
	}
	defer in.Close()
	name, err := filepath.Rel(filepath.Dir(e.root), e.name)
	if err != nil {
		return nil, err
	}
	return in.Open(name)
}

// place is where a chunk lies.
type place struct {
	file   uint32
	length uint32
	offset int64
	// check reports whether it still is there: its name would report as well, and
	// takes ten times as long.
	check uint64
}

// NewBasis finds what there is already of what is to be received at path: what
// arrived before the way broke, what is there, and other copies. All of it, and what
// is received over it, is in directories of ours: indexes are kept beside it.
func NewBasis(ctx context.Context, path string, others ...string) (*Basis, error) {
	return newBasis(ctx, path, append([]string{path}, others...)...)
}

// BasisLeft is the Basis of what arrived at path before the way broke, and nothing
// else; nil where nothing did. path may be in a directory that is not ours: no index
// is kept there if the sender has taken what is reported for ReadKnown.
func BasisLeft(ctx context.Context, path string) (*Basis, error) {
	b, err := newBasis(ctx, path)
	if err != nil || len(b.files) == 0 {
		return nil, err
	}
	return b, nil
}

func newBasis(ctx context.Context, path string, others ...string) (*Basis, error) {
	path = filepath.Clean(path)
	adopt(path)
	b := &Basis{seed: maphash.MakeSeed()}
	for _, root := range append([]string{partial(path)}, others...) {
		if root == "" {
			continue
		}
		if err := b.find(ctx, root); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return b, nil
}

// find adds the files of a copy.
func (b *Basis) find(ctx context.Context, root string) error {
	numbers := map[string]int{}
	if b.index == nil {
		if b.index = readIndex(root); b.index != nil {
			b.root, b.there = root, newNumbers(len(b.index.files))
			for i, e := range b.index.files {
				numbers[e.path] = i
			}
		}
	}
	return eachBelow(root, func(in *fsutil.Root, name string, info fs.FileInfo, err error) error {
		if err != nil || !info.Mode().IsRegular() {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		name = in.Path(name)
		was, is := info.Sys().(*syscall.Stat_t)
		if !is {
			return nil
		}
		st := unix.Stat_t{Dev: was.Dev, Ino: was.Ino, Mode: was.Mode, Size: was.Size, Ctim: unix.Timespec(was.Ctim)}
		f := earlier{root: root, name: name, size: info.Size(), number: -1}
		readable := st.Mode&unix.S_IRUSR != 0
		if i, is := numbers[strings.TrimPrefix(name, root+"/")]; is && readable && b.index.files[i].whole && b.index.same(b.index.files[i], &st) {
			f.number = i
			b.there.add(i)
		}
		b.files = append(b.files, f)
		return nil
	})
}

// stretch is what a processor reads of a file at a time.
type stretch struct {
	file     int
	from, to int64
}

// read finds the chunks of all files but those that the sender has accepted, with all
// processors. It holds some 60 bytes for each chunk in memory, of which there are a
// million or two at most.
func (b *Basis) read(ctx context.Context) error {
	total := int64(0)
	unread := func(f earlier) bool { return f.number < 0 || !b.accepted.has(f.number) }
	for _, f := range b.files {
		if unread(f) {
			total += f.size
		}
	}
	b.bits = chunk.BitsFor(total)
	b.at = make(map[sum]place, min(total>>b.bits, maxKnown))
	c, parts := chunker{Cutter: chunk.New(b.bits)}, make(chan stretch)
	if b.key != nil {
		c = b.key.chunker(b.bits)
	}
	all, ctx := errgroup.WithContext(ctx)
	all.Go(func() error {
		defer close(parts)
		for i, f := range b.files {
			for from := int64(0); from < f.size && unread(f); from = c.spanEnd(from) {
				select {
				case parts <- stretch{i, from, min(c.spanEnd(from), f.size)}:
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

func (b *Basis) chunksOf(p stretch, s *span, c chunker, mu *sync.Mutex) error {
	f, err := b.files[p.file].openFile()
	if err != nil {
		return err
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	_, err = segments(int(f.Fd()), &st, p.from, p.to, func(from, to int64) (int64, error) {
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

// SendKnown reports to a sender what is known, nothing where b is nil; see ReadKnown. What is
// known must not change before the stream has been received.
func (b *Basis) SendKnown(ctx context.Context, sender io.ReadWriter) error {
	if b == nil {
		_, err := sender.Write(head(chunk.SmallestBits, 0))
		return err
	}
	if b.index != nil {
		if err := b.offer(sender); err != nil {
			return err
		}
	}
	if err := b.read(ctx); ctx.Err() != nil {
		return err
	} else if err != nil || len(b.at) > maxKnown { // of many terabytes: reporting all of it would not pay
		b.at = nil
	}
	out := head(b.bits|wantsIndex, len(b.at))
	if b.key != nil {
		out = append(head(b.bits|wantsIndex|keyed, len(b.at)), b.key[:]...)
	}
	for s := range b.at {
		out = append(out, s[:]...)
	}
	_, err := sender.Write(out)
	return err
}

// Keyed has it report names that are made in less time, to a sender who names chunks
// itself: SendOver, and not Unshelve.
func (b *Basis) Keyed() *Basis {
	if b != nil {
		key := newNameKey()
		b.key = &key
	}
	return b
}
