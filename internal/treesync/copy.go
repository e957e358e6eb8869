package treesync

import (
	"context"
	"errors"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// file copies f on this host: as a clone where the file system shares blocks,
// else within the kernel, else through memory.
func (t *tree) file(ctx context.Context, m *meta, f *file) error {
	out, err := t.create(m)
	if err != nil {
		return err
	}
	size := m.size
	if m.size > 0 && unix.IoctlFileClone(out.fd, f.fd) == nil {
		out.end = m.size
		t.report(m.size)
	} else {
		size, err = segments(f.fd, m.st, 0, m.size, func(from, to int64) (int64, error) { return t.move(ctx, f, out, from, to) })
	}
	if err != nil {
		out.close()
		return err
	}
	_, err = t.finish(out, m, size)
	return err
}

func (t *tree) report(n int64) {
	t.done += n
	if t.progress != nil {
		t.progress(t.done)
	}
}

// move copies the bytes from..to and gives the offset it came to.
func (t *tree) move(ctx context.Context, in, out *file, from, to int64) (int64, error) {
	const step = 16 << 20 // so that ctx and progress are looked at
	for from < to {
		if err := ctx.Err(); err != nil {
			return from, err
		}
		r, w := from, from
		n, err := unix.CopyFileRange(in.fd, &r, out.fd, &w, int(min(step, to-from)), 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EPERM):
			return t.through(ctx, in, out, from, to)
		case err != nil:
			return from, err
		case n == 0:
			// The end, or a file of /proc, which claims to have none.
			return t.through(ctx, in, out, from, to)
		}
		from += int64(n)
		out.end = from
		t.report(int64(n))
	}
	return from, nil
}

func (t *tree) through(ctx context.Context, in, out *file, from, to int64) (int64, error) {
	buf := make([]byte, min(blockSize, to-from))
	for from < to {
		if err := ctx.Err(); err != nil {
			return from, err
		}
		n, err := in.ReadAt(buf[:min(int64(len(buf)), to-from)], from)
		if n > 0 {
			if _, err := out.WriteAt(buf[:n], from); err != nil {
				return from, err
			}
			from += int64(n)
			t.report(int64(n))
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

// futimens sets both times by descriptor; package unix only offers it by name.
func futimens(fd int, when unix.Timespec) error {
	ts := [2]unix.Timespec{when, when}
	_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
