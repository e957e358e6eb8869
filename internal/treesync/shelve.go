package treesync

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash"
	"io"
	"math"
	"path"

	"github.com/bee-hpc/bee/internal/chunk"
	"github.com/bee-hpc/bee/internal/core"
)

// Name is that of a chunk of data: half of its SHA-256.
type Name = sum

// NameOf gives the name of a chunk.
func NameOf(data []byte) Name { return sumOf(data) }

// ChunkSink keeps the data of streams as chunks, each under its name.
type ChunkSink interface {
	// Begin is given the size of chunks (see chunk.BitsFor), once it is chosen.
	Begin(bits int)
	// Put keeps a chunk; nil stands for one of which the sender knows that it
	// is known. The data are the caller's again when it returns.
	Put(name Name, data []byte) error
	// File is given every path of the tree but directories, with a digest that is
	// alike for alike content of one store, and the size of files.
	File(path string, digest [sha256.Size]byte, size int64)
}

// IsChunkSize reports whether data may be cut into chunks of this size (see chunk.BitsFor).
func IsChunkSize(bits int) bool { return bits >= chunk.SmallestBits && bits <= chunk.LargestBits }

// ReportKnown reports to a sender which chunks are known; with bits 0 (see
// chunk.BitsFor) none, and that Shelve shall choose by the amount of data.
func ReportKnown(w io.Writer, bits int, names []Name) error {
	if len(names) > maxKnown { // reporting all of it would not pay
		names = names[:maxKnown]
	}
	if bits != 0 && len(names) == 0 {
		bits = 0
	}
	out := make([]byte, 8, 8+len(names)*len(sum{}))
	binary.LittleEndian.PutUint32(out, uint32(bits))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(names)))
	for _, s := range names {
		out = append(out, s[:]...)
	}
	_, err := w.Write(out)
	return err
}

// Shelve reads what SendOver has written to r, puts its data on a store, cut into
// chunks, and writes to w the stream with names in place of them: everything but
// the data. bits are those reported before, 0 where they are to be chosen.
func Shelve(ctx context.Context, r io.Reader, w io.Writer, bits int, chunkSink ChunkSink) error {
	in := &blocks{r: r, table: castagnoli()}
	kind, err := in.magic()
	if err != nil {
		return fail("receive", "a tree", err)
	}
	if kind != kindOne {
		return errRecord
	}
	s := &shelver{out: newEncoder(w, kindOne, nil), chunkSink: chunkSink}
	s.out.plain = true // a store may be what is written to
	s.choose(bits)
	for !s.ended {
		if err := ctx.Err(); err != nil {
			return err
		}
		b, err := in.next()
		if err == nil {
			err = records(b, s.record)
		}
		if err != nil {
			return fail("receive", "a tree", err)
		}
	}
	return nil
}

type shelver struct {
	out       *encoder
	chunkSink ChunkSink
	bits      int
	cutter    chunk.Cutter
	count     uint64
	pending   []byte // data not yet cut, and where in the file they begin
	at        int64
	dirs      []string
	file      string    // that is open
	digest    hash.Hash // of it
	bytes     int64     // of all files
	ended     bool
}

func (s *shelver) choose(bits int) {
	if bits != 0 {
		s.bits, s.cutter = bits, chunk.New(bits)
		s.chunkSink.Begin(bits)
	}
}

func (s *shelver) record(kind byte, b []byte) error {
	if s.ended || (s.digest != nil) != (kind == recData || kind == recSame || kind == recEnd) && kind != recError {
		return errRecord
	}
	s.count++
	switch kind {
	case recTotal:
		if len(b) != 8 {
			return errRecord
		}
		if s.bits == 0 {
			s.choose(chunk.BitsFor(int64(binary.LittleEndian.Uint64(b))))
		}
		return nil
	case recTransfer: // that of the stream which Unshelve gives has none
		return nil
	case recEntry:
		if err := s.entry(b); err != nil {
			return err
		}
	case recData:
		return s.data(b)
	case recSame:
		if len(b) != 8+len(sum{}) {
			return errRecord
		}
		if err := s.flush(); err != nil {
			return err
		}
		if err := s.chunkSink.Put(sum(b[8:]), nil); err != nil {
			return err
		}
		s.digest.Write(b)
	case recEnd:
		if len(b) != 8 {
			return errRecord
		}
		if err := s.flush(); err != nil {
			return err
		}
		size := int64(binary.LittleEndian.Uint64(b))
		if size < 0 || s.bytes > math.MaxInt64-size {
			return errRecord
		}
		s.bytes += size
		s.digest.Write(b)
		s.chunkSink.File(s.file, [sha256.Size]byte(s.digest.Sum(nil)), size)
		s.digest = nil
	case recLeave:
		if len(s.dirs) == 0 {
			return errRecord
		}
		s.dirs = s.dirs[:len(s.dirs)-1]
	case recError:
		return &core.Error{Kind: core.Permanent, Op: "sender", Err: errors.New(string(b)), Remedy: "Check the file on the other machine."}
	case recTrailer:
		if len(b) != 8 || len(s.dirs) > 0 || binary.LittleEndian.Uint64(b) != s.count-1 {
			return errRecord
		}
		s.ended = true
		return s.out.end()
	}
	return s.out.record(kind, b)
}

func (s *shelver) entry(b []byte) error {
	m, err := parseMeta(b)
	if err != nil {
		return err
	}
	where := "" // the tree itself has no name
	if len(s.dirs) > 0 {
		if err := checkName(m.name); err != nil {
			return err
		}
		where = path.Join(s.dirs[len(s.dirs)-1], m.name)
	}
	switch m.kind {
	case kindDir:
		if len(s.dirs) == maxDepth {
			return errDeep
		}
		s.dirs = append(s.dirs, where)
	case kindFile:
		if s.bits == 0 {
			return errRecord
		}
		s.file, s.digest = where, sha256.New()
	default:
		s.chunkSink.File(where, sha256.Sum256([]byte(string(m.kind)+m.target)), 0)
	}
	return nil
}

// data takes bytes of the open file. What follows without a gap is cut as one.
func (s *shelver) data(b []byte) error {
	if len(b) < 8 {
		return errRecord
	}
	off, b := int64(binary.LittleEndian.Uint64(b)), b[8:]
	if off < 0 {
		return errRecord
	}
	if len(s.pending) > 0 && off != s.at+int64(len(s.pending)) {
		if err := s.flush(); err != nil {
			return err
		}
	}
	if len(s.pending) == 0 {
		s.at = off
	}
	s.pending = append(s.pending, b...)
	return s.cut(s.cutter.Most())
}

func (s *shelver) flush() error { return s.cut(1) }

// cut cuts chunks off for as long as that many bytes are there.
func (s *shelver) cut(least int) error {
	b := s.pending
	for len(b) >= least {
		n := s.cutter.Cut(b)
		var same [8 + len(sum{})]byte
		binary.LittleEndian.PutUint64(same[:], uint64(s.at))
		name := sumOf(b[:n])
		copy(same[8:], name[:])
		if err := s.chunkSink.Put(name, b[:n]); err != nil {
			return err
		}
		if err := s.out.record(recSame, same[:]); err != nil {
			return err
		}
		s.digest.Write(same[:])
		b, s.at = b[n:], s.at+int64(n)
	}
	s.pending = s.pending[:copy(s.pending, b)]
	return nil
}
