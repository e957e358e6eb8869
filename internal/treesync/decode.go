package treesync

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// arriving is a file whose content comes.
type arriving struct {
	*file
	content
	noted *entry // nil: nothing is
	// held is the content of a small file that is not made before all of it is there,
	// nil where it is made.
	held *[]byte
	size int   // of what is held
	data int64 // bytes that have come
}

// WriteAt implements io.WriterAt.
func (f *arriving) WriteAt(b []byte, at int64) (int, error) {
	f.add(at, b)
	return f.file.WriteAt(b, at)
}

// decoder reads a stream into a tree.
type decoder struct {
	t     *tree
	basis *Basis // nil: there is no earlier copy
	many  bool
	count uint64
	open  *arriving // the file whose data records come
	meta  *meta
	depth int
	ended bool
	holes int64  // bytes of all files that have not come as data
	id    []byte // of the transfer, if it has one
}

func decode(ctx context.Context, r io.Reader, t *tree, basis *Basis) error {
	in := &blocks{r: r, table: castagnoli()}
	kind, err := in.magic()
	if err != nil {
		return err
	}
	d := &decoder{t: t, basis: basis, many: kind == kindMany}
	if d.many {
		if err := fsutil.MkdirAll(t.root, 0o777); err != nil {
			return err
		}
	}
	defer d.close()
	for !d.ended {
		if err := errors.Join(ctx.Err(), t.fileMaker.failed()); err != nil {
			return err
		}
		b, err := in.next()
		if err != nil {
			return err
		}
		if err := d.block(b); err != nil {
			return err
		}
	}
	return nil
}

// errDeep and errHoles are causes that no tree of an honest job has.
var (
	errDeep  = fmt.Errorf("its directories are nested deeper than %d", maxDepth)
	errHoles = fmt.Errorf("its files have holes of more than %d TiB", int64(maxHoles>>40))
)

// addHoles counts the holes of a file.
func addHoles(sum *int64, n int64) error {
	if n <= 0 { // some data came twice
		return nil
	}
	if n > maxHoles-*sum {
		return errHoles
	}
	*sum += n
	return nil
}

func cut(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the stream was cut: %w", io.ErrUnexpectedEOF)
	}
	return err
}

func (d *decoder) close() {
	if d.open != nil && d.open.file != nil {
		d.open.close()
	}
}

func (d *decoder) block(b []byte) error {
	return records(b, func(kind byte, content []byte) error {
		if d.ended {
			return errRecord
		}
		d.count++
		return d.record(kind, content)
	})
}

func (d *decoder) record(kind byte, b []byte) error {
	if (d.open != nil) != (kind == recData || kind == recSame || kind == recEnd) && kind != recError {
		return errRecord
	}
	switch kind {
	case recTotal:
		return nil
	case recTransfer:
		if len(b) != len(transferID{}) {
			return errRecord
		}
		d.id = slices.Clone(b)
		return nil
	case recTop:
		if d.depth != 0 {
			return errRecord
		}
		return d.top(string(b))
	case recEntry:
		return d.entry(b)
	case recData:
		return d.data(b)
	case recSame:
		return d.same(b)
	case recEnd:
		return d.end(b)
	case recKept:
		return d.kept(b)
	case recLeave:
		if d.depth == 0 {
			return errRecord
		}
		d.depth--
		return d.t.leave()
	case recError:
		return &core.Error{Kind: core.Permanent, Op: "sender", Err: errors.New(string(b)), Remedy: "Check the file on the other machine."}
	case recTrailer:
		if len(b) != 8 || d.depth != 0 || (!d.many && len(d.t.parts) != 1) || binary.LittleEndian.Uint64(b) != d.count-1 {
			return errRecord
		}
		d.ended = true
		return nil
	}
	return errRecord
}

// data stores a part of the open file.
func (d *decoder) data(b []byte) error {
	if len(b) < 8 {
		return errRecord
	}
	off := int64(binary.LittleEndian.Uint64(b))
	if off < 0 {
		return errRecord
	}
	d.open.data += int64(len(b) - 8)
	if d.hold(b[8:], off) {
		return nil
	}
	if err := errors.Join(d.begin(), d.basis.flush(d.open)); err != nil {
		return err
	}
	_, err := d.open.WriteAt(b[8:], off)
	return err
}

// same copies a chunk of the open file that is here already.
func (d *decoder) same(b []byte) error {
	if len(b) != 8+len(sum{}) || d.basis == nil {
		return errRecord
	}
	off := int64(binary.LittleEndian.Uint64(b))
	if off < 0 {
		return errRecord
	}
	if err := d.begin(); err != nil {
		return err
	}
	n, err := d.basis.copyTo(d.open, off, sum(b[8:]))
	d.open.data += int64(n)
	return err
}

// end closes the open file, which has its size then.
func (d *decoder) end(b []byte) error {
	if len(b) != 8 {
		return errRecord
	}
	size := int64(binary.LittleEndian.Uint64(b))
	if size < 0 {
		return errRecord
	}
	if err := addHoles(&d.holes, size-d.open.data); err != nil {
		return err
	}
	if f := d.open; f.held != nil && int64(f.size) == size {
		d.open = nil
		return d.t.arrived(d.meta, f.noted, f.held, f.size)
	}
	if err := errors.Join(d.begin(), d.basis.flush(d.open)); err != nil {
		return err
	}
	f := d.open
	d.open = nil
	st, err := d.t.finish(f.file, d.meta, size)
	if err == nil {
		d.t.journal.set(f.noted, d.meta, st, f.check, f.whole(size))
	}
	return err
}

// kept adds files that are the same at both ends.
func (d *decoder) kept(b []byte) error {
	if len(b) != 8 || d.basis == nil || d.depth == 0 || d.many {
		return errRecord
	}
	first, n := int(binary.LittleEndian.Uint32(b)), int(binary.LittleEndian.Uint32(b[4:]))
	for i := first; i < first+n; i++ {
		if !d.basis.accepted.has(i) {
			return errRecord
		}
		if err := d.t.keep(d.basis, d.basis.index.files[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) top(rel string) error {
	if d.many == (rel == "") {
		return errRecord
	}
	return d.t.top(rel)
}

func (d *decoder) entry(b []byte) error {
	m, err := parseMeta(b)
	if err != nil {
		return err
	}
	switch m.kind {
	case kindDir:
		if d.depth++; d.depth > maxDepth {
			return errDeep
		}
		if d.depth == 1 && d.id != nil && d.basis != nil && !d.many {
			d.t.journal = newJournal(d.t.root, transferID(d.id))
		}
		return d.t.enter(m)
	case kindFile:
		return d.file(m)
	default:
		return d.t.other(m)
	}
}

// file begins a file. A small one that has no other name is not made at once.
func (d *decoder) file(m *meta) error {
	f, path := &arriving{}, ""
	var err error
	if d.depth > 0 && m.link == 0 && m.size <= bufferSize/4 {
		if _, _, path, err = d.t.place(m); err == nil {
			f.held = d.t.fileMaker.buffer()
		}
	} else if f.file, err = d.t.create(m); err == nil {
		path = f.name
	}
	if err != nil {
		return err
	}
	if f.noted = d.t.journal.add(inside(path)); f.noted != nil {
		f.table = castagnoli()
	}
	d.meta, d.open = m, f
	return nil
}

// hold keeps what has come of a file that is not made yet, if there is room.
func (d *decoder) hold(b []byte, at int64) bool {
	f := d.open
	if f.held == nil || at != int64(f.size) || f.size+len(b) > bufferSize {
		return false
	}
	f.size += copy((*f.held)[f.size:], b)
	return true
}

// begin makes the file that comes, if it is not made yet: more is to be done to it than
// to write what is held.
func (d *decoder) begin() error {
	f := d.open
	if f.held == nil {
		return nil
	}
	held := f.held
	defer d.t.fileMaker.buffers.Put(held)
	f.held = nil
	var err error
	if f.file, err = d.t.create(d.meta); err == nil && f.size > 0 {
		_, err = f.WriteAt((*held)[:f.size], 0)
	}
	return err
}
