package filestream

import "github.com/bee-hpc/bee/internal/fsutil"

// RemoveAll is fsutil.RemoveAll.
func RemoveAll(path string) error { return fsutil.RemoveAll(path) }
