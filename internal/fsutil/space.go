package fsutil

import "golang.org/x/sys/unix"

// Space returns how much can still be written below a directory, in bytes.
func Space(dir string) (int64, error) {
	var st unix.Statfs_t
	err := unix.Statfs(dir, &st)
	return int64(st.Bavail) * st.Bsize, err
}
