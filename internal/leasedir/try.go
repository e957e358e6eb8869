package leasedir

import (
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Try makes a directory that the caller removes, where a scratch directory is or could be
// made: the nearest directory that exists must be writable.
func Try(scratch string) (made string, err error) {
	dir := scratch
	for {
		_, err := os.Lstat(dir)
		if err == nil || dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	if err := fsutil.CheckParents(filepath.Join(scratch, "lease")); err != nil {
		return "", err
	}
	return fsutil.TempDir(dir, ".bee-probe-")
}
