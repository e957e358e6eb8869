package outputs

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/control/inputs"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// maxWritten is how many files of one output are recorded. Those beyond count as not the
// run's for later runs of its name.
const maxWritten = 20_000

// writers finds the files in the directory of an output that runs of one name have written.
type writers struct {
	list func(path string) ([]state.Written, error)
	real string // the directory, without links
	top  string // name of the output in it
	// of has what was written before this output, by the name that was asked for and by path.
	of map[string]map[string][]state.Written
}

func (c *Collector) writers(ctx context.Context, root *fsutil.Root, top string) (*writers, error) {
	real, err := root.Real()
	return &writers{list: func(path string) ([]state.Written, error) { return c.Records.Written(ctx, c.Run.Name, path) }, real: real, top: top}, err
}

// wrote reports whether a file is as a run of the name has left it, and whether that was
// an attempt that was lost.
func (w *writers) wrote(name string, there fs.FileInfo) (is, partial bool, err error) {
	top := w.top
	if _, is := inputs.Below(w.top, name); !is { // beside the output
		top = name
	}
	if _, known := w.of[top]; !known {
		list, err := w.list(filepath.Join(w.real, top))
		if err != nil {
			return false, false, err
		}
		if w.of == nil {
			w.of = map[string]map[string][]state.Written{}
		}
		w.of[top] = map[string][]state.Written{}
		for _, f := range list {
			w.of[top][f.Path] = append(w.of[top][f.Path], f)
		}
	}
	for _, f := range w.of[top][filepath.Join(w.real, name)] {
		if f.Size == there.Size() && f.Modified.Equal(there.ModTime()) {
			return true, f.Partial, nil
		}
	}
	return false, false, nil
}

// claimWritten records the files of the tree at from as this run's, before they are moved to
// a name, but for those in whose places are files that the merger does not replace.
func (c *Collector) claimWritten(ctx context.Context, m *merger, from, name string) error {
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
		as, is, err := m.claims(as)
		if is && utf8.ValidString(as) {
			files = append(files, state.Written{Path: filepath.Join(m.writers.real, as), Size: info.Size(), Modified: info.ModTime(), Partial: m.partial})
		}
		return err
	})
	if err != nil {
		return err
	}
	return c.Records.PutWritten(ctx, c.Run, files)
}

// claims returns the name of a file that comes, and whether it may be recorded as the run's.
// One of a lost attempt comes beside what it does not replace, and is recorded there: the next
// lost attempt may replace that.
func (m *merger) claims(name string) (as string, is bool, err error) {
	for as = name; ; as += m.suffix {
		there, err := m.root.Lstat(as)
		if err != nil {
			return as, errors.Is(err, fs.ErrNotExist), nil
		}
		if !there.IsDir() {
			is, err = m.replaces(as, there)
		}
		if is || err != nil || !m.partial || there.IsDir() {
			return as, is, err
		}
	}
}

// replaces reports whether the output may take the place of a file: that is this run's, or
// as an earlier run of the same name has left it, or the Beefile says so. What a lost attempt
// has left takes the place of such files alone.
func (m *merger) replaces(name string, there fs.FileInfo) (bool, error) {
	if !m.partial && (m.replace || m.owns(name)) {
		return true, nil
	}
	is, partial, err := m.writers.wrote(name, there)
	return is && (partial || !m.partial), err
}
