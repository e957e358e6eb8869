package snapshot

import (
	"errors"
	"io/fs"
	"path"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// layOver moves what is below a name of one tree into the other, in place of what is
// there: directories that both have are joined.
func layOver(from, into *fsutil.Root, name string) error {
	names, err := from.ReadDir(name)
	if err != nil {
		return err
	}
	for _, n := range names {
		n = path.Join(name, n)
		info, err := from.Lstat(n)
		if err != nil {
			return err
		}
		there, err := into.Lstat(n)
		if err == nil && info.IsDir() && there.IsDir() {
			err = layOver(from, into, n)
		} else {
			if err == nil {
				err = into.RemoveAll(n)
			}
			if err == nil || errors.Is(err, fs.ErrNotExist) {
				err = from.Rename(n, into, n)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Merge moves the contents of a directory into another, except for what that has.
func Merge(from, into string) error {
	source, err := fsutil.OpenRoot(from)
	if err != nil {
		return err
	}
	defer source.Close()
	target, err := fsutil.OpenRoot(into)
	if err != nil {
		return err
	}
	defer target.Close()
	return layBelow(source, target, ".")
}

func layBelow(from, into *fsutil.Root, dir string) error {
	names, err := from.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := from.Lstat(name)
		if err != nil {
			return err
		}
		there, err := into.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			err = move(from, into, name, info)
		case err == nil && there.IsDir() && info.IsDir():
			err = errors.Join(from.Chmod(name, 0o700), layBelow(from, into, name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// move moves a file or a directory, also one that its owner may not write to.
func move(from, into *fsutil.Root, name string, info fs.FileInfo) error {
	if !info.IsDir() {
		return from.Rename(name, into, name)
	}
	if err := from.Chmod(name, 0o700); err != nil {
		return err
	}
	return errors.Join(from.Rename(name, into, name), into.Chmod(name, info.Mode()))
}
