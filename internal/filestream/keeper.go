package filestream

import (
	"errors"
	"path"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// keeper copies files of an earlier copy that are the same at both ends, several at
// once: what takes the time is making them. They are copied and not linked, and their
// blocks not shared, so that damage to one copy, or who writes to it, leaves the other
// as it is.
type keeper struct {
	once    sync.Once
	slots   chan struct{} // of those that work beside the stream
	buffers sync.Pool
	mu      sync.Mutex
	err     error
}

func (k *keeper) begin() {
	k.slots = make(chan struct{}, runtime.GOMAXPROCS(0))
	k.buffers.New = func() any { b := make([]byte, 256<<10); return &b }
}

func (k *keeper) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil {
		k.err = err
	}
}

func (k *keeper) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.err
}

// keep makes a file of the earlier copy at root one of the directory that is being
// filled.
func (t *tree) keep(root string, e *entry) error {
	frame := t.stack[len(t.stack)-1]
	name := path.Base(e.path)
	where := frame.path + "/" + name
	if inside(where) != e.path {
		return errRecord
	}
	if err := t.ctx.Err(); err != nil {
		return err
	}
	t.keeper.once.Do(t.keeper.begin)
	noted := t.journal.add(e.path)
	do := func() {
		st, err := t.keeper.copy(frame.fd, name, root, e)
		if err != nil {
			t.keeper.fail(t.wrap("copy", where, err))
			return
		}
		t.journal.set(noted, st, e.check, true)
	}
	select {
	case t.keeper.slots <- struct{}{}:
		frame.kept.Go(func() {
			do()
			<-t.keeper.slots
		})
	default:
		do()
	}
	return nil
}

// copy makes the file name in a directory that copy of a file which it was when e was
// noted, attributes included.
func (k *keeper) copy(dir int, name, root string, e *entry) (*unix.Stat_t, error) {
	st, source := &unix.Stat_t{}, filepath.Join(root, e.path)
	from, err := unix.Open(source, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, unreadable(root, source, err)
	}
	defer unix.Close(from)
	if err := unix.Fstat(from, st); err != nil {
		return nil, unreadable(root, source, err)
	}
	m := &meta{mode: st.Mode & 0o1777, mtime: st.Mtim.Nano()}
	if m.xattrs, err = readXattrs(from); err != nil {
		return nil, unreadable(root, source, err)
	}
	to, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, m.mode&0o700|0o200)
	if err != nil {
		return nil, err
	}
	defer unix.Close(to)
	c, read, err := k.move(to, from, e.size)
	if read == nil && err == nil && (!c.whole(e.size) || c.check != e.check) {
		read = errChanged
	}
	if read != nil {
		return nil, unreadable(root, source, read)
	}
	if err != nil {
		return nil, err
	}
	if err := setMeta(to, m, m.mode); err != nil {
		return nil, err
	}
	return st, unix.Fstat(to, st)
}

// unreadable says so of a file of the earlier copy at root. The next time all of that is
// read, and what cannot be travels.
func unreadable(root, name string, err error) error {
	forgetIndex(root)
	return notAsItWas(name, err)
}

// move copies so many bytes, or fewer where there are no more, and tells what they are.
func (k *keeper) move(to, from int, size int64) (c content, read, err error) {
	buffer, _ := k.buffers.Get().(*[]byte)
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
		for done := 0; done < n; {
			wrote, err := unix.Pwrite(to, (*buffer)[done:n], c.at+int64(done))
			if err != nil && !errors.Is(err, unix.EINTR) {
				return c, nil, err
			}
			done += max(wrote, 0)
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
	return t.keeper.failed()
}
