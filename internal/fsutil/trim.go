package fsutil

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// Trim frees the disk of a plain file's beginning, up to its last keep bytes, where the file
// takes more than limit bytes of the disk. It is for logs that other programs write, which
// continue at their own offset. Where the file system frees no part of a file, all of it is
// emptied.
func Trim(dir, name string, limit, keep int64) error {
	r, err := OpenRoot(dir)
	if err != nil {
		return err
	}
	defer r.Close()
	f, err := r.ReadWrite(name)
	if err != nil {
		return err
	}
	defer f.Close()
	const block = 512 // of Blocks, whatever the file system's
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return &os.PathError{Op: "stat", Path: r.Path(name), Err: err}
	}
	if st.Blocks*block <= limit || st.Size <= keep {
		return nil
	}
	err = unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, st.Size-keep)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(0)
	}
	if err != nil {
		return &os.PathError{Op: "trim", Path: r.Path(name), Err: err}
	}
	return nil
}
