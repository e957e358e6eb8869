package filestream

import (
	"io/fs"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// SyncDir is fsutil.SyncDir.
func SyncDir(dir string) error { return fsutil.SyncDir(dir) }

// WriteFile is fsutil.WriteFile.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	return fsutil.WriteFile(name, data, mode)
}
