package fsutil

import (
	"errors"
	"io/fs"
	"path"
)

// Walk calls visit for a name and everything below it, in order, as fs.WalkDir does:
// links are visited, not followed, and fs.SkipDir and fs.SkipAll have their meaning. What
// was removed meanwhile is left out. Where something cannot be read, visit gets the error,
// and info is that of the directory, or nil.
func (r *Root) Walk(name string, visit func(name string, info fs.FileInfo, err error) error) error {
	info, err := r.Lstat(name)
	if err != nil {
		err = visit(name, nil, err)
	} else {
		err = r.walk(name, info, visit)
	}
	if errors.Is(err, fs.SkipDir) || errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

func (r *Root) walk(name string, info fs.FileInfo, visit func(string, fs.FileInfo, error) error) error {
	if err := visit(name, info, nil); err != nil || !info.IsDir() {
		if info.IsDir() && errors.Is(err, fs.SkipDir) {
			return nil
		}
		return err
	}
	names, err := r.ReadDir(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		if err := visit(name, info, err); err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	for _, n := range names {
		below := path.Join(name, n)
		info, err := r.Lstat(below)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			err = visit(below, nil, err)
		default:
			err = r.walk(below, info, visit)
		}
		if errors.Is(err, fs.SkipDir) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}
