package control

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// maxWritten is how many files of one output are recorded. Those beyond count as not the
// run's for later runs of its name.
const maxWritten = 20_000

// writers tells which files in the directory of an output runs of one name have written.
type writers struct {
	list func(path string) ([]state.Written, error)
	real string // the directory, without links
	top  string // name of the output in it
	// of has what was written, by path; nil: it was not asked for yet.
	of map[string][]state.Written
}

func (d *controlled) writers(ctx context.Context, root *fsutil.Root, top string) (*writers, error) {
	real, err := root.Real()
	return &writers{list: func(path string) ([]state.Written, error) { return d.c.Store.Written(ctx, d.run.Name, path) }, real: real, top: top}, err
}

// wrote reports whether a file is as a run of the name has left it.
func (w *writers) wrote(name string, there fs.FileInfo) (bool, error) {
	if w.of == nil {
		list, err := w.list(filepath.Join(w.real, w.top))
		if err != nil {
			return false, err
		}
		w.of = map[string][]state.Written{}
		for _, f := range list {
			w.of[f.Path] = append(w.of[f.Path], f)
		}
	}
	for _, f := range w.of[filepath.Join(w.real, name)] {
		if f.Size == there.Size() && f.Modified.Equal(there.ModTime()) {
			return true, nil
		}
	}
	return false, nil
}

// claimWritten records the files of the tree at from as this run's, before they are moved to
// a name, but for those in whose places are files that the merger does not replace.
func (d *controlled) claimWritten(ctx context.Context, m *merger, from, name string) error {
	var files []state.Written
	err := m.root.Walk(from, func(at string, info fs.FileInfo, err error) error {
		if errors.Is(err, fs.ErrPermission) { // nothing in it is claimed
			return nil
		}
		if err != nil || info.IsDir() {
			return err
		}
		if len(files) == maxWritten {
			return fs.SkipAll
		}
		as := path.Join(name, strings.TrimPrefix(at, from))
		there, err := m.root.Lstat(as)
		is := errors.Is(err, fs.ErrNotExist)
		if err == nil && !there.IsDir() {
			if is, err = m.replaces(as, there); err != nil {
				return err
			}
		}
		if is && utf8.ValidString(as) {
			files = append(files, state.Written{Path: filepath.Join(m.writers.real, as), Size: info.Size(), Modified: info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return d.c.Store.PutWritten(ctx, d.run, files)
}

// replaces reports whether the output may take the place of a file: that is this run's, or
// as an earlier run of the same name has left it, or the Beefile says so.
func (m *merger) replaces(name string, there fs.FileInfo) (bool, error) {
	if m.replace || m.owns(name) {
		return true, nil
	}
	return m.writers.wrote(name, there)
}
