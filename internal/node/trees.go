package node

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Trees that the job fills: the volume and its copies. A job may change them at any
// moment, and put a link where a directory was, so that nothing in them is reached by its
// path.

// openTree opens the volume, or a copy of it.
func (n *node) openTree(dir string) (*fsutil.Root, error) {
	r, err := fsutil.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	r.Seen = n.plan.Volume
	n.mu.Unlock()
	return r, nil
}

// partsOf lists what patterns match in a tree, none within another, by names without
// links: where a match is reached over a link of the tree, or is one, both the link and
// what it leads to are listed. What a link leads to outside is not.
func partsOf(tree *fsutil.Root, globs []string) ([]string, error) {
	var found []string
	for _, glob := range globs {
		matches, err := tree.Glob(glob)
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		for _, m := range matches {
			to, over, err := tree.Trace(m)
			if found = append(found, over...); err == nil { // else it leads out, or nowhere
				found = append(found, to)
			}
		}
	}
	slices.Sort(found)
	found = slices.Compact(found)
	if slices.Contains(found, wholeVolume) {
		return []string{wholeVolume}, nil
	}
	var parts []string
	for _, name := range found {
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(name, p+"/") }) {
			parts = append(parts, name)
		}
	}
	return parts, nil
}

// place gives the name without links at which a file of the tree is, or would be. Links
// that lead out of the tree are refused.
func place(r *fsutil.Root, name string) (string, error) {
	dir, err := r.Resolve(path.Dir(name))
	return path.Join(dir, path.Base(name)), err
}

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
