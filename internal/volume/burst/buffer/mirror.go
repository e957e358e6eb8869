package buffer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Mirror is a copy of a journal in a directory on another host: the same bytes in the same segments. Once its
// owner has closed it, Open continues with what the journal had.
type Mirror struct {
	dir   *fsutil.Root
	lock  *fsutil.Lock
	most  int64 // bytes of all segments
	flush func(*os.File) error

	f        *os.File // of the segment that grows; nil: there is none
	at       Position
	sizes    map[uint64]int64
	size     int64
	unsynced bool
}

// MirrorOptions are those of NewMirror.
type MirrorOptions struct {
	// Most bounds the bytes of the copy.
	Most int64
	// Flush is as in Options.
	Flush func(*os.File) error
}

// NewMirror begins a copy in a directory that has none.
func NewMirror(dir string, o MirrorOptions) (*Mirror, error) {
	root, err := fsutil.OpenOwn(dir)
	if err != nil {
		return nil, err
	}
	lock, err := fsutil.TryLockFor(filepath.Join(dir, lockName), fsutil.Momentary)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	m := &Mirror{dir: root, lock: lock, most: o.Most, flush: o.Flush, sizes: map[uint64]int64{}}
	if m.flush == nil {
		m.flush = func(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }
	}
	name, err := aPart(root)
	if name != "" {
		err = &core.Error{Kind: core.Busy, Op: "copy journal", Object: dir, Err: fmt.Errorf("a journal is there: %s", name), Remedy: "Keep it: data may be in it that the remote lacks."}
	}
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// At is the end of the copy.
func (m *Mirror) At() Position { return m.at }

// Put adds a piece to the copy. It is on the disk after Sync.
func (m *Mirror) Put(p Piece) error {
	if p.Index != nil {
		return m.putIndex(p)
	}
	switch {
	case p.At == m.at && m.f != nil:
	case p.At.At == 0 && p.At.Segment > m.at.Segment:
		if err := m.begin(p.At.Segment); err != nil {
			return err
		}
	default:
		return &core.Error{Kind: core.Invalid, Op: "copy journal", Err: fmt.Errorf("segment %d from %d does not follow segment %d up to %d", p.At.Segment, p.At.At, m.at.Segment, m.at.At), Remedy: core.RemedyVersions}
	}
	if m.size+int64(len(p.Bytes)) > m.most {
		return fmt.Errorf("copy more than %d bytes of a journal: %w", m.most, syscall.ENOSPC)
	}
	if _, err := m.f.WriteAt(p.Bytes, m.at.At); err != nil {
		return err
	}
	m.unsynced = true
	m.at.At += int64(len(p.Bytes))
	m.sizes[m.at.Segment] = m.at.At
	m.size += int64(len(p.Bytes))
	return nil
}

// begin starts a segment, once the one before is on the disk.
func (m *Mirror) begin(number uint64) error {
	if m.f != nil {
		if err := errors.Join(m.Sync(), m.f.Close()); err != nil {
			return err
		}
		m.f = nil
	}
	f, err := m.dir.Create(name(number), 0o600)
	if err != nil {
		return err
	}
	if err := m.dir.SyncDir("."); err != nil {
		return errors.Join(err, f.Close())
	}
	m.f, m.at = f, Position{Segment: number}
	return nil
}

// putIndex replaces the index, and then removes what it makes superfluous.
func (m *Mirror) putIndex(p Piece) error {
	end, err := indexEnd(p.Index)
	if err != nil || p.At != m.at && p.At.At != 0 || p.At.Before(m.at) || p.At.Before(end) {
		return &core.Error{Kind: core.Invalid, Op: "copy index of journal", Err: errors.Join(err, errors.New("it is about records that are not here")), Remedy: core.RemedyVersions}
	}
	if p.At != m.at {
		if err := m.begin(p.At.Segment); err != nil {
			return err
		}
	}
	if err := m.Sync(); err != nil { // the index may be newer than the records on the disk
		return err
	}
	if err := m.dir.WriteFile(indexName, p.Index, 0o600); err != nil {
		return err
	}
	kept := map[uint64]bool{m.at.Segment: true}
	for _, number := range p.Kept {
		kept[number] = true
	}
	for number, size := range m.sizes {
		if kept[number] || number > end.Segment {
			continue
		}
		if err := m.dir.Unlink(name(number)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		delete(m.sizes, number)
		m.size -= size
	}
	return nil
}

// Note keeps a small file beside the copy.
func (m *Mirror) Note(name string, raw []byte) error {
	if isPart(name) || name == lockName {
		return &core.Error{Kind: core.Invalid, Op: "keep note beside journal", Object: name, Err: errors.New("it is a file of the journal's"), Remedy: core.RemedyFault}
	}
	return m.dir.WriteFile(name, raw, 0o600)
}

// Sync writes the copy to the disk.
func (m *Mirror) Sync() error {
	if !m.unsynced {
		return nil
	}
	if err := m.flush(m.f); err != nil {
		return err
	}
	m.unsynced = false
	return nil
}

// Close releases the files. What is there stays.
func (m *Mirror) Close() error {
	var err error
	if m.f != nil {
		err = errors.Join(m.Sync(), m.f.Close())
	}
	return errors.Join(err, m.dir.Close(), m.lock.Unlock())
}

// Exists reports whether a directory has a journal, or a copy of one.
func Exists(dir string) (bool, error) {
	root, err := fsutil.OpenOwn(dir)
	if err != nil {
		return false, err
	}
	defer root.Close()
	name, err := aPart(root)
	return name != "", err
}

// aPart returns the name of a file of a journal in a directory; "": there is none.
func aPart(root *fsutil.Root) (string, error) {
	names, err := root.ReadDir(".")
	if at := slices.IndexFunc(names, isPart); at >= 0 {
		return names[at], err
	}
	return "", err
}

func isPart(name string) bool { return name == indexName || strings.HasPrefix(name, segmentPrefix) }
