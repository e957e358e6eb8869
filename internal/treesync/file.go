package treesync

import (
	"errors"
	"io"
	"io/fs"

	"golang.org/x/sys/unix"
)

// file is a plain file that is read or made. An os.File asks the kernel first whether
// it can be waited for, which is two calls more for each of many small files.
type file struct {
	fd   int
	name string
	end  int64 // behind what was written
}

// ReadAt implements io.ReaderAt.
func (f *file) ReadAt(b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pread(f.fd, b[done:], at+int64(done))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return done, &fs.PathError{Op: "read", Path: f.name, Err: err}
		case n == 0:
			return done, io.EOF
		default:
			done += n
		}
	}
	return done, nil
}

// WriteAt implements io.WriterAt.
func (f *file) WriteAt(b []byte, at int64) (int, error) {
	n, err := writeAll(f.fd, b, at)
	if err != nil {
		return n, &fs.PathError{Op: "write", Path: f.name, Err: err}
	}
	f.end = max(f.end, at+int64(n))
	return n, nil
}

// writeAll writes at an offset, and reports how much it could.
func writeAll(fd int, b []byte, at int64) (int, error) {
	done := 0
	for done < len(b) {
		n, err := unix.Pwrite(fd, b[done:], at+int64(done))
		if err != nil && !errors.Is(err, unix.EINTR) {
			return done, err
		}
		done += max(n, 0)
	}
	return done, nil
}

// close gives up a file, or ends reading it.
func (f *file) close() { unix.Close(f.fd) }
