package leasedir

import (
	"bytes"
	"errors"
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

// Echo writes data below each of some directories that are there or could be made, reads
// them back, and returns them.
func Echo(data []byte, dirs ...string) ([]byte, error) {
	for _, dir := range dirs {
		got, err := echo(data, dir)
		if err != nil {
			return nil, Unusable(dir, err)
		}
		if !bytes.Equal(got, data) {
			return nil, Unusable(dir, errors.New("a file in it has not what was written to it"))
		}
	}
	return data, nil
}

func echo(data []byte, dir string) (got []byte, err error) {
	made, err := Try(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(made)) }()
	file := filepath.Join(made, "echo")
	if err := fsutil.WriteFile(file, data, 0o600); err != nil {
		return nil, err
	}
	return fsutil.ReadFile(made, filepath.Base(file), int64(len(data)))
}
