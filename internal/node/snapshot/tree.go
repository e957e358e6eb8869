// Package snapshot copies the volume of a job while the job runs, and keeps the copies for their
// readers. It knows one host: neither other nodes nor the plan of an attempt.
package snapshot

import (
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Trees opens the volume and its copies. A job may change them at any moment, and put a link
// where a directory was, so that nothing in them is reached by its path.
type Trees struct {
	// Seen is the path by which the job sees the volume. Its absolute links begin with it.
	Seen string
}

// Open opens the volume, or a copy of it.
func (t Trees) Open(dir string) (*fsutil.Root, error) {
	r, err := fsutil.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	r.Seen = t.Seen
	return r, nil
}

// Whole is the pattern of all that is in a tree.
const Whole = "."

// Parts lists what patterns match in a tree, none within another, by names without
// links: where a match is reached over a link of the tree, or is one, both the link and
// what it leads to are listed. What a link leads to outside is not.
func Parts(tree *fsutil.Root, globs []string) ([]string, error) {
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
	if slices.Contains(found, Whole) {
		return []string{Whole}, nil
	}
	var parts []string
	for _, name := range found {
		if !slices.ContainsFunc(parts, func(p string) bool { return strings.HasPrefix(name, p+"/") }) {
			parts = append(parts, name)
		}
	}
	return parts, nil
}

// Place returns the name without links at which a file of the tree is, or would be. Links
// that lead out of the tree are refused.
func Place(r *fsutil.Root, name string) (string, error) {
	dir, err := r.Resolve(path.Dir(name))
	return path.Join(dir, path.Base(name)), err
}

// Named reports whether a pattern matches a path or a directory that it is in.
func Named(p string, globs []string) bool {
	for ; ; p = path.Dir(p) {
		if slices.ContainsFunc(globs, func(glob string) bool { ok, err := path.Match(glob, p); return ok && err == nil }) {
			return true
		}
		if p == Whole || p == "/" {
			return false
		}
	}
}
