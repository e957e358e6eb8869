package treesync

import (
	"io/fs"
	"slices"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Match lists, relative to root, every file below it that a glob matches or that is in
// a directory which one matches, as SendMany takes them. Where these are links, what they
// lead to below root is listed as well. Nothing outside root is looked at.
func Match(root *fsutil.Root, globs []string) ([]string, error) {
	m := matching{root: root, seen: map[string]bool{}}
	var unread error
	for _, glob := range globs {
		names, err := root.Glob(glob)
		if err != nil && unread == nil {
			unread = err
		}
		for _, name := range names {
			m.add(name)
		}
	}
	for len(m.links) > 0 {
		link := m.links[0]
		m.links = m.links[1:]
		m.add(link)
	}
	slices.Sort(m.files)
	return m.files, unread
}

type matching struct {
	root  *fsutil.Root
	seen  map[string]bool // names that were walked
	files []string
	links []string // whose targets are still to be added
}

// add lists what a name means, and the links that it is behind.
func (m *matching) add(name string) {
	target, over, err := m.root.Trace(name)
	for _, link := range over {
		m.file(link)
	}
	if err != nil { // it leads out, or nowhere
		return
	}
	core.BestEffort(m.root.Walk(target, func(name string, info fs.FileInfo, err error) error { // what cannot be read is not there
		switch {
		case err != nil:
			return nil // see above
		case info.IsDir():
			if m.seen[name] {
				return fs.SkipDir
			}
			m.seen[name] = true
		default:
			if m.file(name) && info.Mode()&fs.ModeSymlink != 0 {
				m.links = append(m.links, name)
			}
		}
		return nil
	}))
}

// file lists a name, and reports whether it is new.
func (m *matching) file(name string) bool {
	if m.seen[name] {
		return false
	}
	m.seen[name] = true
	m.files = append(m.files, name)
	return true
}
