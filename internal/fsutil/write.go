package fsutil

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/google/renameio/v2"
)

// WriteFile writes a file so that its name has all of the data, on the disk, or what it
// had before. The data go to a new file beside it, which takes its place; the file, then
// the directory are synced. A link at name is replaced.
func WriteFile(name string, data []byte, mode fs.FileMode) error {
	f, err := Create(name, mode)
	if err != nil {
		return err
	}
	defer f.Discard()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// NewFile is the file of a WriteFile whose data come in pieces.
type NewFile struct {
	file *renameio.PendingFile
	name string
}

// Create begins a WriteFile. The caller writes the data, and ends with Commit or Discard.
func Create(name string, mode fs.FileMode) (*NewFile, error) {
	// Without a directory of its own for temporary files, renameio tries out two more.
	f, err := renameio.NewPendingFile(name, renameio.WithTempDir(filepath.Dir(name)), renameio.WithPermissions(mode), renameio.WithExistingPermissions())
	if err != nil {
		return nil, err
	}
	return &NewFile{f, name}, nil
}

// Write implements io.Writer.
func (n *NewFile) Write(b []byte) (int, error) { return n.file.Write(b) }

// Commit gives the file its name.
func (n *NewFile) Commit() error {
	if err := n.file.CloseAtomicallyReplace(); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(n.name))
}

// Discard removes the file. After Commit it does nothing.
func (n *NewFile) Discard() { core.BestEffort(n.file.Cleanup()) }

// Rename moves a file or directory, and syncs the directories that the names are in.
func Rename(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	err := SyncDir(filepath.Dir(to))
	if filepath.Dir(from) != filepath.Dir(to) {
		err = errors.Join(err, SyncDir(filepath.Dir(from)))
	}
	return err
}

// MkdirAll makes a directory and those above it, as far as they are missing, and syncs
// the directories that got a new name.
func MkdirAll(dir string, mode fs.FileMode) error {
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrNotExist) {
		if err = MkdirAll(filepath.Dir(dir), mode); err == nil {
			err = os.Mkdir(dir, mode)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		info, serr := os.Stat(dir)
		if serr != nil || info.IsDir() {
			return serr
		}
	}
	if err != nil {
		return err
	}
	return SyncDir(filepath.Dir(dir))
}

// SyncDir writes the names in a directory to the disk. Without it a file that was renamed
// may have its old name after a power cut.
func SyncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}
