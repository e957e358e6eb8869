package buffer

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Log is the journal in a directory that its user alone can read. One process has it open.
type Log struct {
	dir  *fsutil.Root
	lock *fsutil.Lock // no process of another installation has it open, either
	most int64        // bytes of a segment, after which another one begins

	flush func(*os.File) error

	mu       sync.Mutex
	segments map[uint64]*segment
	current  *segment
	seq      uint64 // of the last record
	size     int64  // bytes of all segments
	// unindexed are the bytes of records after the index.
	unindexed int64
	failed    error // a failed sync: what the disk has is not known from then on

	tails   map[*Tail]bool
	indexes uint64   // how many were written, with the one that was there
	indexAt Position // the end of the newest one

	syncing sync.Mutex
	synced  uint64
}

type segment struct {
	number uint64
	f      *os.File
	size   int64
}

// SegmentSize is the usual size of a segment.
const SegmentSize = 64 << 20

const (
	indexName     = "index"
	lockName      = "lock"
	segmentPrefix = "segment-"
)

// Options of a Log.
type Options struct {
	SegmentSize int64 // 0: SegmentSize
	// Index is called with the newest index, before all records, if there is one.
	Index func(data []byte) error
	// Replay is called with each record after that of the index.
	Replay func(Record) error
	// Flush writes what a segment has to the disk; nil: fdatasync.
	Flush func(segment *os.File) error
}

// Open opens the journal in a directory, and replays it. The directory must exist: a missing
// one is a disk that is not mounted, not an empty journal. A torn end was never synced, and
// is cut off. Damage elsewhere is an error: nothing is thrown away.
func Open(dir string, o Options) (*Log, error) {
	root, err := fsutil.OpenOwn(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &core.Error{Kind: core.Transient, Op: "open buffer", Object: dir, Err: fmt.Errorf("it is missing: %w", err), Remedy: "Mount its disk."}
	}
	if err != nil {
		return nil, err
	}
	lock, err := fsutil.TryLockFor(filepath.Join(dir, lockName), fsutil.Momentary)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	l := &Log{dir: root, lock: lock, most: o.SegmentSize, flush: o.Flush, segments: map[uint64]*segment{}, tails: map[*Tail]bool{}}
	if l.flush == nil {
		l.flush = func(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
	}
	if l.most == 0 {
		l.most = SegmentSize
	}
	if err := l.replay(o); err != nil {
		return nil, errors.Join(&core.Error{Kind: core.Permanent, Op: "read journal", Object: dir, Err: err, Remedy: "Keep the directory: data may be in it that the remote lacks."}, l.Close())
	}
	// A killed process may have left records that only the page cache has.
	if err := l.flush(l.current.f); err != nil {
		return nil, errors.Join(&os.PathError{Op: "sync", Path: l.current.f.Name(), Err: err}, l.Close())
	}
	l.synced = l.seq
	return l, nil
}

func name(number uint64) string { return fmt.Sprintf(segmentPrefix+"%012d", number) }

func (l *Log) replay(o Options) error {
	from, err := l.readIndex(o)
	if err != nil {
		return err
	}
	names, err := l.dir.ReadDir(".")
	if err != nil {
		return err
	}
	var numbers []uint64
	for _, n := range names {
		if digits, is := strings.CutPrefix(n, segmentPrefix); is {
			number, err := strconv.ParseUint(digits, 10, 64)
			if err != nil {
				return err
			}
			numbers = append(numbers, number)
		}
	}
	slices.Sort(numbers)
	l.seq = from.seq
	for i, number := range numbers {
		s, err := l.openSegment(number)
		if err != nil {
			return err
		}
		if err := l.replaySegment(s, from, i == len(numbers)-1, o.Replay); err != nil {
			return fmt.Errorf("%s: %w", name(number), err)
		}
		l.size += s.size
		l.current = s
	}
	if l.current == nil {
		return l.begin(from.segment + 1) // a lower number would be that of records in the index
	}
	return nil
}

func (l *Log) openSegment(number uint64) (*segment, error) {
	f, err := l.dir.ReadWrite(name(number))
	if err != nil {
		return nil, err
	}
	s := &segment{number: number, f: f}
	l.segments[number] = s
	return s, nil
}

// begin starts a segment. Callers hold the lock, or are alone.
func (l *Log) begin(number uint64) error {
	f, err := l.dir.Create(name(number), 0o600)
	if err != nil {
		return err
	}
	if err := l.dir.SyncDir("."); err != nil {
		return errors.Join(err, f.Close())
	}
	l.current = &segment{number: number, f: f}
	l.segments[number] = l.current
	return nil
}

func (l *Log) replaySegment(s *segment, from start, last bool, apply func(Record) error) error {
	info, err := s.f.Stat()
	if err != nil {
		return err
	}
	switch {
	case s.number < from.segment:
		s.size = info.Size()
		return nil
	case s.number == from.segment:
		if s.size = from.at; info.Size() < s.size {
			return io.ErrUnexpectedEOF
		}
	}
	r := bufio.NewReaderSize(io.NewSectionReader(s.f, s.size, info.Size()-s.size), 1<<20)
	var head [headerSize]byte
	payload := []byte{}
	for {
		_, err := io.ReadFull(r, head[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		var rec Record
		n := 0
		if err == nil {
			n, err = parse(head[:], &rec)
		}
		if err == nil {
			payload = slices.Grow(payload[:0], n)[:n]
			_, err = io.ReadFull(r, payload)
		}
		if err == nil && !checked(head[:], payload) {
			err = errDamaged
		}
		if err == nil && rec.Seq != l.seq+1 {
			err = fmt.Errorf("record %d follows record %d", rec.Seq, l.seq)
		}
		if err != nil {
			if torn := errors.Is(err, errDamaged) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF); !last || !torn {
				return err
			}
			return errors.Join(s.f.Truncate(s.size), s.f.Sync())
		}
		rec.Payload = payload
		rec.Place = Place{Segment: s.number, At: s.size, Len: int64(n)}
		s.size += headerSize + int64(n)
		l.unindexed += headerSize + int64(n)
		l.seq = rec.Seq
		if err := apply(rec); err != nil {
			return fmt.Errorf("record %d: %w", rec.Seq, err)
		}
	}
}

// Append adds a record, and gives it its number and place. A process that is killed from
// then on does not lose it; a host that dies may, before Sync.
func (l *Log) Append(r *Record) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		return l.failed
	}
	if l.current.size >= l.most {
		if err := l.rotate(); err != nil {
			return err
		}
	}
	s := l.current
	r.Seq = l.seq + 1
	h := header(r)
	n, err := unix.Pwritev(int(s.f.Fd()), [][]byte{h[:], r.Payload}, s.size)
	if err == nil && n < headerSize+len(r.Payload) {
		// The rest, or the reason why it does not fit.
		_, err = s.f.WriteAt(append(h[:], r.Payload...)[n:], s.size+int64(n))
	}
	if err != nil {
		if terr := s.f.Truncate(s.size); terr != nil {
			l.failed = terr
		}
		return err
	}
	r.Place = Place{Segment: s.number, At: s.size, Len: int64(len(r.Payload))}
	l.seq = r.Seq
	s.size += headerSize + r.Place.Len
	l.size += headerSize + r.Place.Len
	l.unindexed += headerSize + r.Place.Len
	return nil
}

func (l *Log) rotate() error {
	if err := l.flush(l.current.f); err != nil {
		l.failed = err
		return err
	}
	return l.begin(l.current.number + 1)
}

// Last is the number of the last record.
func (l *Log) Last() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

// Sync writes all records up to that of a number to the disk. One write serves all who wait.
func (l *Log) Sync(seq uint64) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.synced >= seq {
		return nil
	}
	l.mu.Lock()
	last, s, err := l.seq, l.current, l.failed
	l.mu.Unlock()
	if err != nil {
		return err
	}
	err = l.flush(s.f) // earlier segments were synced when they ended
	if err != nil {
		// The kernel forgets what it could not write, and the next sync would succeed.
		l.mu.Lock()
		l.failed = err
		l.mu.Unlock()
		return err
	}
	l.synced = last
	return nil
}

// Read gives the payload of a record into p, from skip bytes on. Where verify is set, the
// whole record is compared with its checksum.
func (l *Log) Read(at Place, skip int64, p []byte, verify bool) error {
	l.mu.Lock()
	s := l.segments[at.Segment]
	l.mu.Unlock()
	if s == nil {
		return fs.ErrClosed
	}
	if !verify {
		_, err := s.f.ReadAt(p, at.At+headerSize+skip)
		return err
	}
	whole := make([]byte, headerSize+at.Len)
	if _, err := s.f.ReadAt(whole, at.At); err != nil {
		return err
	}
	var r Record
	if n, err := parse(whole, &r); err != nil || int64(n) != at.Len || !checked(whole[:headerSize], whole[headerSize:]) {
		return &core.Error{Kind: core.Permanent, Op: "read journal", Object: l.dir.Path(name(at.Segment)), Err: fmt.Errorf("at %d: %w", at.At, errDamaged), Remedy: "The disk has lost data: look at its health."}
	}
	copy(p, whole[headerSize+skip:])
	return nil
}

// Size is how many bytes the journal takes.
func (l *Log) Size() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.size
}

// Close releases the files.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, s.f.Close())
	}
	return errors.Join(append(errs, l.dir.Close(), l.lock.Unlock())...)
}
