package outputs

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// hiddenName is the file in a run's directory with the hidden files of its outputs, by the
// directory of `to:`.
const hiddenName = "hidden.json"

// Bounds of that file. A hidden file beyond them counts as not the run's.
const (
	maxHidden      = 10_000
	maxHiddenNames = 1 << 20  // bytes of all names
	maxHiddenBytes = 16 << 20 // of the file, where JSON may escape each of them
)

// isHidden reports whether a name in a tree is that of a hidden file or directory.
func isHidden(name string) bool { return strings.HasPrefix(path.Base(name), ".") }

// hiddenFiles are the hidden files of a run's outputs, by the directory of `to:`.
type hiddenFiles map[string][]string

// count returns the number of names and of their bytes.
func (h hiddenFiles) count() (names, bytes int) {
	for dir, list := range h {
		bytes += len(dir)
		for _, name := range list {
			bytes += len(name)
		}
		names += len(list)
	}
	return names, bytes
}

func (c *Collector) hiddenFiles() (hiddenFiles, error) {
	raw, err := fsutil.ReadFile(c.Dir, hiddenName, maxHiddenBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !fsutil.Spoiled(err) {
		return nil, err
	}
	made := hiddenFiles{}
	if json.Unmarshal(raw, &made) != nil || made == nil {
		return hiddenFiles{}, nil // absent or damaged: none is the run's
	}
	return made, nil
}

// claimHidden returns the hidden files in the directory to that are this run's, with those
// of the tree at from. They are recorded before they are moved there. Hidden files of an
// output may be as harmful as .git/hooks, so they replace none but the run's own.
func (c *Collector) claimHidden(root *fsutil.Root, to, from, name string) (map[string]bool, error) {
	made, err := c.hiddenFiles()
	if err != nil {
		return nil, err
	}
	own := map[string]bool{}
	for _, n := range made[to] {
		own[n] = true
	}
	all, bytes := made.count()
	before := all
	err = root.Walk(from, func(at string, info fs.FileInfo, err error) error {
		if errors.Is(err, fs.ErrPermission) { // nothing in it is claimed
			return nil
		}
		if err != nil || at == from || !isHidden(at) {
			return err
		}
		as := path.Join(name, strings.TrimPrefix(at, from+"/"))
		fits := all < maxHidden && bytes+len(as) <= maxHiddenNames && utf8.ValidString(as) // JSON would change other names
		if _, lerr := root.Lstat(as); errors.Is(lerr, fs.ErrNotExist) && !own[as] && fits {
			made[to] = append(made[to], as)
			own[as] = true
			all++
			bytes += len(as)
		}
		if info.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil || all == before {
		return own, err
	}
	raw, err := json.Marshal(made)
	if err != nil {
		return nil, err
	}
	return own, fsutil.WriteFile(filepath.Join(c.Dir, hiddenName), raw, 0o600)
}

// moveBelow is move for files below an output. A hidden file that is not the run's stays, and
// the output's is moved beside it.
func (m *merger) moveBelow(from, to string) error {
	if !isHidden(to) || m.owns(to) {
		return m.move(from, to)
	}
	there, err := m.root.Lstat(to)
	if errors.Is(err, fs.ErrNotExist) {
		return m.move(from, to)
	}
	if err != nil {
		return err
	}
	if same, err := m.same(from, to, there); same || err != nil {
		return err
	}
	m.hidden = append(m.hidden, to+m.suffix)
	return m.move(from, to+m.suffix)
}

// owns reports whether a hidden file, or a directory that leads to it, is the run's.
func (m *merger) owns(name string) bool {
	for at := name; at != "."; at = path.Dir(at) {
		if m.own[at] || strings.HasSuffix(at, m.suffix) {
			return true
		}
	}
	return false
}

// same reports whether two plain files have the same content.
func (m *merger) same(from, to string, there fs.FileInfo) (bool, error) {
	have, err := m.root.Lstat(from)
	if err != nil || !have.Mode().IsRegular() || !there.Mode().IsRegular() || have.Size() != there.Size() {
		return false, err
	}
	a, err := m.root.Open(from)
	if err != nil {
		return false, err
	}
	defer a.Close()
	b, err := m.root.Open(to)
	if errors.Is(err, unix.EACCES) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer b.Close()
	return sameContent(a, b)
}

func sameContent(a, b *os.File) (bool, error) {
	var x, y [64 << 10]byte
	for {
		n, err := io.ReadFull(a, x[:])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return false, err
		}
		k, berr := io.ReadFull(b, y[:])
		if berr != nil && !errors.Is(berr, io.EOF) && !errors.Is(berr, io.ErrUnexpectedEOF) {
			return false, berr
		}
		if !bytes.Equal(x[:n], y[:k]) {
			return false, nil
		}
		if err != nil || berr != nil {
			return true, nil // both have ended
		}
	}
}
