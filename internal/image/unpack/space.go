package unpack

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// spaceFor is after how many bytes the disk's free space is looked at, which costs next
// to nothing beside the writing.
const spaceFor = 1 << 20

// RemedyFull is what helps where the cache's disk is full.
const RemedyFull = "Free space, `bee image prune`, or choose another cache with --cache."

// spare reports whether the disk that fd is on keeps its spare bytes if need more
// are written. dir is what people call the place.
func (l Limits) spare(fd int, dir string, need int64) error {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return nil // then the write itself shows it
	}
	if free := int64(st.Bavail) * st.Bsize; free < need+l.Spare {
		return fmt.Errorf("the disk of %s is nearly full: %d MB are free", dir, free>>20)
	}
	return nil
}

// Copy writes a stream to a temporary file, within the limits of a whole tree.
func Copy(to *os.File, from io.Reader, l Limits) error {
	dir := filepath.Dir(to.Name())
	noRoom := func(err error) error {
		return &core.Error{Kind: core.Transient, Op: "write image to", Object: dir, Err: err, Remedy: "Free space there, or name another directory by TMPDIR."}
	}
	chunk := make([]byte, spaceFor)
	for at, left := int64(0), l.Bytes; ; {
		if err := l.spare(int(to.Fd()), dir, spaceFor); err != nil {
			return noRoom(err)
		}
		n, err := fill(from, chunk)
		part := chunk[:n]
		if !isZero(part) { // as in a layer, zeros become holes
			left -= int64(n)
			if _, werr := to.WriteAt(part, at); werr != nil {
				err = werr
			}
		}
		at += int64(n)
		switch {
		case left < 0 || at > l.Bytes*holes:
			return &core.Error{
				Kind: core.Invalid, Op: "read image", Err: fmt.Errorf("it has more than %d bytes", l.Bytes),
				Remedy: "It is damaged or hostile; get it from where it was made.",
			}
		case errors.Is(err, io.EOF):
			return to.Truncate(at)
		case fsutil.IsFull(err):
			return noRoom(err)
		case err != nil:
			return err
		}
	}
}
