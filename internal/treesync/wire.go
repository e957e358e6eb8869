package treesync

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// A stream is a magic string, then blocks. A block is its length and its
// checksum (4 bytes each, little endian), then records, compressed where the
// length says so (packedBlock); the checksum continues from the block before, so
// that a block lost, doubled or moved is noticed. A record is a type byte, its
// length (4 bytes), and its content. The last record is the trailer.
const (
	magicLen   = 8
	blockSize  = 1 << 20
	firstBlock = 16 << 10
	blockHead  = 8
	recHead    = 5

	// maxDepth bounds how deep directories are nested: each takes a descriptor while it
	// is filled. Linux has paths of 4096 bytes.
	maxDepth = 1024
	// maxHoles bounds the holes of all files, in bytes: they take nothing of the stream,
	// nor of a disk, and anyone who reads the files later reads them as data.
	maxHoles = 16 << 40

	kindOne  = '1'
	kindMany = '*'

	recTotal    = 'N' // bytes in all files (8 bytes), where the receiver has asked
	recTransfer = 'I' // name of the transfer, where both ends keep an index
	recTop      = 'T' // path below the root; starts a new top
	recEntry    = 'E' // meta; for a file, data records and recEnd follow
	recData     = 'D' // offset (8 bytes), bytes
	recSame     = 'S' // offset (8 bytes), name of a chunk that the receiver has
	recEnd      = 'F' // final size (8 bytes)
	recKept     = 'K' // numbers in the index that both ends have (4 bytes): of the first file, and how many
	recLeave    = 'U' // the current directory is complete
	recError    = 'X' // the sender gives up: message
	recTrailer  = 'Z' // number of records before it (8 bytes)
)

func magic(kind byte) string { return "BEEfs1" + string(kind) + "\n" }

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// encoder writes a stream. It is a sink of the walker.
type encoder struct {
	w        io.Writer
	plain    bool     // w is written to by the caller, and nothing is compressed
	carrier  *carrier // else, for a stream of several blocks
	table    *crc32.Table
	crc      uint32
	buf      []byte // block head, then records; before the first, the magic
	skip     int    // length of the magic while it is still in buf
	count    uint64
	done     int64
	holes    int64 // bytes of files that are sent as none
	progress func(int64)
	known    *Known // what the receiver has; nil: nothing
	span     span   // of the file, where something is known
	again
	err error // of w; sticks
}

func newEncoder(w io.Writer, kind byte, progress func(int64)) *encoder {
	e := &encoder{w: w, table: castagnoli(), buf: make([]byte, 0, firstBlock), skip: magicLen, progress: progress}
	// The magic goes out with the first block: one write, one packet.
	e.buf = append(e.buf, magic(kind)...)
	e.buf = append(e.buf, make([]byte, blockHead)...)
	return e
}

// seal completes a block. It reports where the records begin, and whether there are any.
func (e *encoder) seal() (records int, some bool) {
	at := e.skip + blockHead
	if len(e.buf) == at {
		return at, false
	}
	e.crc = crc32.Update(e.crc, e.table, e.buf[at:])
	binary.LittleEndian.PutUint32(e.buf[at-8:], uint32(len(e.buf)-at))
	binary.LittleEndian.PutUint32(e.buf[at-4:], e.crc)
	e.skip = 0
	return at, true
}

// flush sends a block to which others follow.
func (e *encoder) flush() error {
	at, some := e.seal()
	if e.err != nil || !some {
		return e.err
	}
	if e.plain {
		_, e.err = e.w.Write(e.buf)
		e.buf = e.buf[:blockHead]
		return e.err
	}
	if e.carrier == nil {
		e.carrier = newCarrier(e.w)
	}
	if e.err = e.carrier.put(e.buf, at); e.err == nil {
		e.buf = append(e.carrier.buffer(), make([]byte, blockHead)...)
	}
	return e.err
}

// last sends the last block, and waits until all is written.
func (e *encoder) last() error {
	at, some := e.seal()
	if e.carrier == nil {
		if e.err == nil && some {
			_, e.err = e.w.Write(e.buf)
		}
		return e.err
	}
	if e.err == nil && some {
		e.err = e.carrier.put(e.buf, at)
	}
	if err := e.carrier.end(); e.err == nil {
		e.err = err
	}
	return e.err
}

// room flushes unless n more bytes fit into the block.
func (e *encoder) room(n int) error {
	if e.err == nil && len(e.buf)+n > blockSize {
		return e.flush()
	}
	return e.err
}

// grow makes the buffer larger, up to a block, if n more bytes need it. It
// starts small, because most streams are.
func (e *encoder) grow(n int) {
	if need := min(len(e.buf)+n, blockSize); need > cap(e.buf) {
		bigger := make([]byte, len(e.buf), blockSize)
		copy(bigger, e.buf)
		e.buf = bigger
	}
}

func (e *encoder) record(kind byte, content []byte) error {
	if err := e.reportKept(); err != nil {
		return err
	}
	if len(content) > blockSize-recHead-blockHead {
		return errors.New("attributes of a file are too large")
	}
	if err := e.room(recHead + len(content)); err != nil {
		return err
	}
	e.buf = append(e.buf, kind)
	e.buf = binary.LittleEndian.AppendUint32(e.buf, uint32(len(content)))
	e.buf = append(e.buf, content...)
	e.count++
	return nil
}

func (e *encoder) number(kind byte, v uint64) error {
	return e.record(kind, binary.LittleEndian.AppendUint64(nil, v))
}

func (e *encoder) top(rel string) error { return e.record(recTop, []byte(rel)) }
func (e *encoder) enter(m *meta) error  { return e.record(recEntry, m.append(nil)) }
func (e *encoder) leave() error         { return e.record(recLeave, nil) }
func (e *encoder) other(m *meta) error  { return e.record(recEntry, m.append(nil)) }

func (e *encoder) file(ctx context.Context, m *meta, f *file) error {
	noted := e.note(f.name)
	if err := e.record(recEntry, m.append(nil)); err != nil {
		return err
	}
	data := int64(0)
	size, err := segments(f.fd, m.st, 0, m.size, func(from, to int64) (int64, error) {
		data += to - from
		return e.data(ctx, f, from, to)
	})
	if err == nil {
		err = addHoles(&e.holes, size-data) // no receiver takes more
	}
	if err != nil {
		return err
	}
	e.journal.set(noted, m, m.st, e.content.check, e.content.whole(size))
	return e.number(recEnd, uint64(size))
}

// data sends the bytes from..to of f and gives the offset it came to: less
// than to where the file has become shorter.
func (e *encoder) data(ctx context.Context, f *file, from, to int64) (int64, error) {
	if e.known != nil {
		return eachChunk(ctx, f, from, to, e.known.chunks, &e.span, e.chunk)
	}
	const head, least = recHead + 8, 64 << 10
	for from < to {
		if err := ctx.Err(); err != nil {
			return from, err
		}
		if err := e.room(head + int(min(to-from, least))); err != nil {
			return from, err
		}
		e.grow(head + int(min(to-from, blockSize)))
		at := len(e.buf)
		room := min(int64(blockSize-at-head), to-from)
		n, err := f.ReadAt(e.buf[at+head:at+head+int(room)], from)
		if n > 0 {
			e.buf = e.buf[:at+head+n]
			e.buf[at] = recData
			binary.LittleEndian.PutUint32(e.buf[at+1:], uint32(8+n))
			binary.LittleEndian.PutUint64(e.buf[at+recHead:], uint64(from))
			e.count++
			e.content.add(from, e.buf[at+head:])
			from += int64(n)
			e.report(int64(n))
		}
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err != nil {
			return from, err
		}
	}
	return from, nil
}

func (e *encoder) report(n int64) {
	e.done += n
	if e.progress != nil {
		e.progress(e.done)
	}
}

// chunk sends a chunk, or its name where the receiver has it.
func (e *encoder) chunk(at int64, b []byte, s sum) error {
	e.report(int64(len(b)))
	e.content.add(at, b)
	var head [8 + len(sum{})]byte
	binary.LittleEndian.PutUint64(head[:], uint64(at))
	if _, has := e.known.sums[s]; has {
		copy(head[8:], s[:])
		return e.record(recSame, head[:])
	}
	return e.pieces(head[:8], b)
}

// pieces sends data that begin at an offset (8 bytes), which may be more than
// fits into a block.
func (e *encoder) pieces(offset, b []byte) error {
	const most = blockSize - recHead - blockHead - 8
	at := binary.LittleEndian.Uint64(offset)
	for len(b) > 0 {
		n := min(len(b), most)
		if err := e.record(recData, append(binary.LittleEndian.AppendUint64(nil, at), b[:n]...)); err != nil {
			return err
		}
		at, b = at+uint64(n), b[n:]
	}
	return nil
}

func (e *encoder) end() error {
	_ = e.number(recTrailer, e.count) // the last write reports it
	return e.last()
}

// abort reports to the receiver why nothing more comes, as far as that works.
func (e *encoder) abort(cause error) {
	text := cause.Error()
	_ = e.record(recError, []byte(text[:min(len(text), 4096)]))
	_ = e.last()
}
