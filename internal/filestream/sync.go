package filestream

import "os"

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
