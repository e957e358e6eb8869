package fsutil

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Space returns how much can still be written below a directory, in bytes.
func Space(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return int64(st.Bavail) * st.Bsize, err
}

// IsFull reports whether err is that of a disk, or of a quota, that is used up.
func IsFull(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }
