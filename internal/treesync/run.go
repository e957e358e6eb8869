package treesync

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"

	"github.com/bee-hpc/bee/internal/core"
)

// run are chunks that follow one another in an earlier copy as in the new file: they
// are read and written at once.
type run struct {
	to   int64 // offset in the new file
	from place // all of them
	ends []checked
	buf  []byte
}

// checked is a chunk of a run, by where it ends.
type checked struct {
	end   int
	check uint64
}

// copyTo has a chunk of the basis put into a file, at the latest by flush, and reports its
// size.
func (b *Basis) copyTo(out io.WriterAt, at int64, s sum) (int, error) {
	p, ok := b.at[s]
	if !ok {
		return 0, errRecord
	}
	r := &b.run
	end := int64(r.from.length)
	if len(r.ends) == 0 || p.file != r.from.file || p.offset != r.from.offset+end || at != r.to+end || end+int64(p.length) > blockSize {
		if err := b.flush(out); err != nil {
			return 0, err
		}
		r.to, r.from = at, place{file: p.file, offset: p.offset}
	}
	r.from.length += p.length
	r.ends = append(r.ends, checked{int(r.from.length), p.check})
	return int(p.length), nil
}

// flush writes what waits, once each chunk has proved to be what it was.
func (b *Basis) flush(out io.WriterAt) error {
	if b == nil || len(b.run.ends) == 0 {
		return nil
	}
	r := &b.run
	p := r.from
	if b.open == nil || b.last != p.file {
		b.close()
		f, err := b.files[p.file].openFile()
		if err != nil {
			return err
		}
		b.open, b.last = f, p.file
	}
	if cap(r.buf) < int(p.length) {
		r.buf = make([]byte, max(p.length, blockSize))
	}
	data := r.buf[:p.length]
	if _, err := b.open.ReadAt(data, p.offset); err != nil {
		return fmt.Errorf("read the earlier copy: %w", err)
	}
	begin := 0
	for _, c := range r.ends {
		if maphash.Bytes(b.seed, data[begin:c.end]) != c.check {
			return notAsItWas(b.files[p.file].name, errChanged)
		}
		begin = c.end
	}
	r.ends = r.ends[:0]
	_, err := out.WriteAt(data, r.to)
	return err
}

var errChanged = errors.New("it has changed meanwhile")

// notAsItWas says that what was reported of an earlier copy does not hold any more.
func notAsItWas(name string, err error) error {
	return &core.Error{Kind: core.Transient, Op: "read the earlier copy", Object: name, Err: err}
}

func (b *Basis) close() {
	if b != nil && b.open != nil {
		b.open.Close()
		b.open = nil
	}
}
