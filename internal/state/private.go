package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// databaseName is the file with the records. SQLite makes its other files beside
// it, with the same permissions.
const databaseName = "state.db"

// keepPrivate makes the database before SQLite does, and takes from others what
// earlier versions let them read: values of variables stand in the records.
func keepPrivate(dir string) error {
	f, err := os.OpenFile(filepath.Join(dir, databaseName), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(owned(f), f.Close()); err != nil {
		return err
	}
	for name, mode := range map[string]fs.FileMode{
		databaseName: 0o600, databaseName + "-wal": 0o600, databaseName + "-shm": 0o600, databaseName + "-journal": 0o600,
		"controllers.log": 0o600, "controllers.log.1": 0o600, "runs": 0o700, "controllers": 0o700, "supervisors": 0o700, "binaries": 0o700,
	} {
		if err := narrow(filepath.Join(dir, name), mode); err != nil {
			return err
		}
	}
	return nil
}

// owned refuses a file of another user, who could read and change what is written
// to it. For root, files of any user are its own.
func owned(f *os.File) error {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fmt.Errorf("look at %s: %w", f.Name(), err)
	}
	if me := os.Geteuid(); me != 0 && int(st.Uid) != me {
		return fmt.Errorf("%s belongs to user %d, not to you", f.Name(), st.Uid)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return fmt.Errorf("%s is no plain file", f.Name())
	}
	return nil
}

// narrow removes permissions of others from a file or directory, where there is one.
func narrow(path string, most fs.FileMode) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || info.Mode()&fs.ModeSymlink != 0 || info.Mode().Perm()&^most == 0 {
		return err
	}
	err = os.Chmod(path, info.Mode().Perm()&most)
	if errors.Is(err, fs.ErrNotExist) { // the last process that had the database open has removed it
		return nil
	}
	return err
}
