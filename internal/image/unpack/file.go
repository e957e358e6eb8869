package unpack

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func (u *Unpacker) file(ctx context.Context, h *tar.Header, r io.Reader, fd int, base, own string) error {
	if h.Size < 0 || h.Size > u.limits.Bytes*holes-u.bytes {
		return hostile(h.Name, fmt.Errorf("the image unpacks to more than %d bytes", u.limits.Bytes*holes))
	}
	u.bytes += h.Size
	mode := uint32(h.Mode & 0o7777)
	direct := mode&(0o7000|u.umask) == 0
	var f int
	err := u.replace(fd, base, own, func() (err error) {
		perm := uint32(0o600)
		if direct {
			perm = mode
		}
		f, err = unix.Openat(fd, base, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, perm)
		return err
	})
	if err != nil {
		return err
	}
	err = u.fill(ctx, f, r, h.Size)
	if errors.Is(err, errTooMuch) {
		err = hostile(h.Name, fmt.Errorf("the image unpacks to more than %d bytes", u.limits.Bytes))
	}
	if err == nil && hasXattrs(h) {
		err = setXattrs(f, h)
	}
	if err == nil && !direct {
		err = unix.Fchmod(f, mode)
	}
	if err == nil {
		err = futimens(f, h.ModTime)
	}
	return errors.Join(err, unix.Close(f))
}

// holes is how many times larger than its data an image may be by its holes.
const holes = 100

var errTooMuch = errors.New("too many bytes")

// takesSpace counts data that is about to be written, and looks at the disk now and then.
func (u *Unpacker) takesSpace(n int64) error {
	if u.data += n; u.data > u.limits.Bytes {
		return errTooMuch
	}
	if u.data-u.checked <= spaceFor {
		return nil
	}
	return u.checkSpace(spaceFor)
}

// fill writes a file's content. Long runs of zeros become holes, so that what
// was sparse once is so again, and a bomb of zeros takes no space.
func (u *Unpacker) fill(ctx context.Context, f int, r io.Reader, size int64) error {
	at, hole := int64(0), false
	for at < size {
		chunk := u.buf[:min(int64(len(u.buf)), size-at)]
		if _, err := io.ReadFull(r, chunk); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if hole = len(chunk) == len(u.buf) && isZero(chunk); !hole {
			if err := u.takesSpace(int64(len(chunk))); err != nil {
				return err
			}
			if err := writeAt(f, chunk, at); err != nil {
				return err
			}
		}
		at += int64(len(chunk))
		if size > int64(len(u.buf)) && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if hole {
		return unix.Ftruncate(f, size)
	}
	return nil
}

func writeAt(f int, b []byte, at int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f, b, at)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b, at = b[n:], at+int64(n)
	}
	return nil
}

// isZero compares the bytes with those before them, which is quicker than each alone.
func isZero(b []byte) bool {
	return len(b) == 0 || b[0] == 0 && bytes.Equal(b[1:], b[:len(b)-1])
}

const paxXattr = "SCHILY.xattr."

func hasXattrs(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, paxXattr) {
			return true
		}
	}
	return false
}

// setXattrs sets those of the user's own namespace, and file capabilities
// where we may. user.overlay.* would steer an overlay mounted on the tree.
func setXattrs(fd int, h *tar.Header) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, paxXattr)
		if !ok || strings.HasPrefix(name, "user.overlay.") || !strings.HasPrefix(name, "user.") && name != "security.capability" {
			continue
		}
		err := unix.Fsetxattr(fd, name, []byte(value), 0)
		if errors.Is(err, unix.ENOTSUP) || name == "security.capability" {
			continue
		}
		if err != nil {
			return fmt.Errorf("set attribute %s: %w", name, err)
		}
	}
	return nil
}

// times gives both times of a file. Years that do not fit the kernel's clock
// are those of archives that nobody means.
func times(t time.Time) []unix.Timespec {
	if t.Year() < 1902 || t.Year() > 2261 {
		t = time.Unix(0, 0)
	}
	ts := unix.NsecToTimespec(t.UnixNano())
	return []unix.Timespec{ts, ts}
}

// futimens sets the times of an open file; x/sys has no call for it.
func futimens(fd int, t time.Time) error {
	ts := times(t)
	if _, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&ts[0])), 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}
