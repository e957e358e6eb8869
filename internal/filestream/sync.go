package filestream

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// SyncDir has the names in a directory written to the disk: after a rename, say,
// without which the file may have its old name after a crash.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// WriteFile writes a file so that its name has all of it, on the disk, or what it had
// before. It is made beside that: renameio would else try by two more files whether it
// can be made among the temporary ones.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	return renameio.WriteFile(name, data, mode, renameio.WithTempDir(filepath.Dir(name)))
}
