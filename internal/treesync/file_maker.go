package treesync

import (
	"errors"
	"hash/crc32"
	"path"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// fileMaker makes files several at once, for that is what takes the time where they are
// many and small: those that have come whole, and those of an earlier copy that are the
// same at both ends. The latter are copied and not linked, and their blocks not shared,
// so that damage to one copy, or who writes to it, leaves the other as it is.
type fileMaker struct {
	once    sync.Once
	slots   chan struct{} // of those that work beside the stream
	buffers sync.Pool
	mu      sync.Mutex
	err     error
}

const bufferSize = 256 << 10

func (k *fileMaker) begin() {
	const waiting = 8 // file systems of clusters ask a server for each file
	k.slots = make(chan struct{}, max(runtime.GOMAXPROCS(0), waiting))
	k.buffers.New = func() any { b := make([]byte, bufferSize); return &b }
}

func (k *fileMaker) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
}

func (k *fileMaker) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// beside has a file of the directory that is being filled made while the stream continues,
// where enough are not being made already.
func (t *tree) beside(f *frame, op, path string, do func() error) {
	try := func() {
		if err := do(); err != nil {
			t.fileMaker.fail(t.wrap(op, path, err))
		}
	}
	t.fileMaker.once.Do(t.fileMaker.begin)
	select {
	case t.fileMaker.slots <- struct{}{}:
		f.kept.Go(func() {
			try()
			<-t.fileMaker.slots
		})
	default:
		try()
	}
}

// buffer gives one of bufferSize bytes, which is to be put back among the buffers.
func (k *fileMaker) buffer() *[]byte {
	k.once.Do(k.begin)
	b, _ := k.buffers.Get().(*[]byte)
	return b
}

// arrived makes a file of a directory, of which all is in a buffer.
func (t *tree) arrived(m *meta, noted *entry, buffer *[]byte, size int) error {
	dir, _, path, err := t.place(m)
	if err != nil {
		return err
	}
	journal := t.journal
	t.beside(&t.stack[len(t.stack)-1], "create", path, func() error {
		defer t.fileMaker.buffers.Put(buffer)
		fd, err := createAt(dir, m.name, 0o600|m.mode&0o777)
		if err != nil {
			return err
		}
		data := (*buffer)[:size]
		if _, err := writeAll(fd, data, 0); err != nil {
			unix.Close(fd)
			return err
		}
		st, err := seal(fd, m)
		if err == nil && noted != nil {
			journal.set(noted, m, st, crc32.Checksum(data, castagnoli()), true)
		}
		return err
	})
	return nil
}

// keep makes a file of the earlier copy one of the directory that is being filled.
func (t *tree) keep(b *Basis, e *entry) error {
	frame := &t.stack[len(t.stack)-1]
	name := path.Base(e.path)
	where := frame.path + "/" + name
	if inside(where) != e.path {
		return errRecord
	}
	if err := t.ctx.Err(); err != nil {
		return err
	}
	if frame.from < 0 {
		frame.from = openBelow(b.root, path.Dir(e.path))
	}
	noted, from, to := t.journal.add(e.path), frame.from, frame.fd
	t.beside(frame, "copy", where, func() error {
		m, st, err := t.fileMaker.copy(to, from, name, b, e)
		if err == nil {
			t.journal.set(noted, m, st, e.check, true)
		}
		return err
	})
	return nil
}

// copy makes a file that is in one directory what it was when e was noted in another,
// attributes included.
func (k *fileMaker) copy(to, from int, name string, b *Basis, e *entry) (*meta, *unix.Stat_t, error) {
	m, in, err := b.earlier(from, name, e)
	if err != nil {
		return nil, nil, unreadable(b.root, e.path, err)
	}
	defer unix.Close(in)
	out, err := createAt(to, name, m.mode&0o777|0o200)
	if err != nil {
		return nil, nil, err
	}
	c, read, err := k.move(out, in, e.size)
	if read == nil && err == nil && (!c.whole(e.size) || c.check != e.check) {
		read = errChanged
	}
	if read != nil || err != nil {
		unix.Close(out)
	}
	if read != nil {
		return nil, nil, unreadable(b.root, e.path, read)
	}
	if err != nil {
		return nil, nil, err
	}
	st, err := seal(out, m)
	return m, st, err
}

// earlier opens a file of the earlier copy, which has to be there as it was.
func (b *Basis) earlier(dir int, name string, e *entry) (*meta, int, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EBADF) { // it is gone, or its directory
		err = errChanged
	}
	if err != nil {
		return nil, -1, err
	}
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && !b.index.same(e, &st) {
		err = errChanged
	}
	m := &meta{mode: st.Mode & 0o1777, mtime: st.Mtim.Nano()}
	if err == nil && !e.bare {
		m.xattrs, err = readXattrs(fd)
	}
	if err != nil {
		unix.Close(fd)
	}
	return m, fd, err
}

// unreadable says so of a file of the earlier copy at root. The next time all of that is
// read, and what cannot be travels.
func unreadable(root, path string, err error) error {
	forgetIndex(root)
	return notAsItWas(filepath.Join(root, path), err)
}

// move copies so many bytes, or fewer where there are no more, and reports what they are.
func (k *fileMaker) move(to, from int, size int64) (c content, read, err error) {
	buffer := k.buffer()
	defer k.buffers.Put(buffer)
	c.table = castagnoli()
	for c.at < size {
		n, err := unix.Pread(from, (*buffer)[:min(int64(len(*buffer)), size-c.at)], c.at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return c, err, nil
		}
		if _, err := writeAll(to, (*buffer)[:n], c.at); err != nil {
			return c, nil, err
		}
		c.add(c.at, (*buffer)[:n])
	}
	return c, nil, nil
}

// settle waits for all that is being copied.
func (t *tree) settle() error {
	for _, f := range t.stack {
		f.kept.Wait()
	}
	return t.fileMaker.failed()
}
