package outputs

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// merger moves what a run has brought into a directory of its user's. All of it happens
// below the descriptor of that directory, and over no link: what an earlier attempt has
// brought there may hold links that its site chose.
//
// A directory that is there takes what the other holds. Where one is a directory and the
// other is not, nothing is replaced: what came goes to its name with a suffix. So do files
// whose names are taken by files that no run of the same name wrote, unless replace is set,
// and hidden files below an output whose names are taken by files that are not the run's.
type merger struct {
	root    *fsutil.Root
	suffix  string
	beside  []beside        // what has such a name
	hidden  []string        // likewise, beside a hidden file
	own     map[string]bool // hidden files of this run
	writers *writers        // of what is there
	replace bool            // files of others
	partial bool            // what comes may be incomplete, and replaces nothing that is not
	changed map[string]bool // directories that have to be synced
}

// beside is the name of an output whose place was taken. Unlike says that one of both is a
// directory, and the other is not.
type beside struct {
	name   string
	unlike bool
}

// place moves what came under one name to another, and makes the directories above that. The
// name that it returns has a suffix where the other one was taken.
func (m *merger) place(from, to string) (at string, err error) {
	dir := "."
	for element := range strings.SplitSeq(path.Dir(to), "/") {
		if dir, err = m.directory(path.Join(dir, element)); err != nil {
			return "", err
		}
	}
	at = path.Join(dir, path.Base(to))
	err = m.move(from, at)
	for m.isBeside(at + m.suffix) {
		at += m.suffix
	}
	return at, err
}

func (m *merger) isBeside(name string) bool {
	return slices.ContainsFunc(m.beside, func(b beside) bool { return b.name == name })
}

// directory makes one, or gives the name of one beside what is there.
func (m *merger) directory(name string) (string, error) {
	there, err := m.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		m.changed[path.Dir(name)] = true
		if err = m.root.Mkdir(name, 0o777); !errors.Is(err, fs.ErrExist) {
			return name, err
		}
		there, err = m.root.Lstat(name) // it has appeared meanwhile
	}
	if err != nil || there.IsDir() {
		return name, err
	}
	m.beside = append(m.beside, beside{name + m.suffix, true})
	return m.directory(name + m.suffix)
}

// mostLooks is how often a name is looked at that others take and free.
const mostLooks = 16

// move moves what came to a name. Only a file that was looked at is replaced: another one may
// appear there at any time.
func (m *merger) move(from, to string) error {
	have, err := m.root.Lstat(from)
	if err != nil {
		return err
	}
	for range mostLooks {
		there, lerr := m.root.Lstat(to)
		if lerr == nil {
			return m.onto(from, to, have, there)
		}
		if !errors.Is(lerr, fs.ErrNotExist) {
			return lerr
		}
		if err = m.rename(from, to, have, m.root.RenameNew); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return err
}

// onto moves what came to a name at which something is.
func (m *merger) onto(from, to string, have, there fs.FileInfo) error {
	if have.IsDir() && there.IsDir() {
		return m.fill(from, to, have)
	}
	if have.IsDir() == there.IsDir() {
		if is, err := m.replaces(to, there); err != nil {
			return err
		} else if is {
			return m.rename(from, to, have, m.root.Rename)
		}
		if is, err := m.same(from, to, there); err != nil {
			return err
		} else if is { // it stays
			return m.root.RemoveAll(from)
		}
	}
	m.beside = append(m.beside, beside{to + m.suffix, have.IsDir() != there.IsDir()})
	return m.move(from, to+m.suffix)
}

// rename moves a file or directory, by Rename or RenameNew. A directory without write
// permission, as results may be, cannot leave the one that it is in: its entry ".." changes.
func (m *merger) rename(from, to string, have fs.FileInfo, by func(from string, in *fsutil.Root, to string) error) error {
	m.changed[path.Dir(to)] = true
	err := by(from, m.root, to)
	if !errors.Is(err, fs.ErrPermission) || !have.IsDir() {
		return err
	}
	if err := m.root.Chmod(from, have.Mode()|0o700); err != nil {
		return err
	}
	if err := by(from, m.root, to); err != nil {
		return err
	}
	return m.root.Chmod(to, have.Mode())
}

// fill moves what one directory holds into another.
func (m *merger) fill(from, to string, have fs.FileInfo) error {
	if have.Mode()&0o700 != 0o700 { // a directory of results may be read-only
		if err := m.root.Chmod(from, have.Mode()|0o700); err != nil {
			return err
		}
	}
	names, err := m.root.ReadDir(from)
	for _, name := range names {
		err = errors.Join(err, m.moveBelow(path.Join(from, name), path.Join(to, name)))
	}
	if err != nil {
		return err
	}
	return m.root.RemoveAll(from)
}

// sync writes the names in the directories that were changed to the disk.
func (m *merger) sync() error {
	var err error
	for dir := range m.changed {
		err = errors.Join(err, m.root.SyncDir(dir))
	}
	return err
}
