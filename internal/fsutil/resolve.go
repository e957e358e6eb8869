package fsutil

import (
	"errors"
	"io/fs"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// ErrOutside is the cause where a link leads out of its tree.
var ErrOutside = errors.New("leads out of the directory")

// maxLinks is how many links one name may lead over, as in Linux.
const maxLinks = 40

// Resolve follows the links in a name, the last element included, within the tree: it
// gives the name without links of what the name leads to. The error wraps ErrOutside
// where a link leads out, ELOOP where links lead in a circle, and fs.ErrNotExist where
// nothing is there.
func (r *Root) Resolve(name string) (string, error) {
	done, _, err := r.Trace(name)
	return done, err
}

// Trace is Resolve, and also gives the names of the links that it went over, as far as it
// came.
func (r *Root) Trace(name string) (to string, over []string, err error) {
	rest, err := r.dir.local(name)
	if err != nil {
		return "", nil, err
	}
	done := "." // without links
	for rest != "" {
		element, more, _ := strings.Cut(rest, "/")
		rest = more
		switch element {
		case "", ".":
			continue
		case "..":
			if done == "." {
				return "", over, r.dir.fail("resolve", name, ErrOutside)
			}
			done = path.Dir(done)
			continue
		}
		next := path.Join(done, element)
		info, err := r.Lstat(next)
		if err != nil {
			return "", over, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if rest != "" && !info.IsDir() {
				return "", over, r.dir.fail("resolve", name, unix.ENOTDIR)
			}
			done = next
			continue
		}
		if over = append(over, next); len(over) > maxLinks {
			return "", over, r.dir.fail("resolve", name, unix.ELOOP)
		}
		target, err := r.Readlink(next)
		if err != nil {
			return "", over, err
		}
		if path.IsAbs(target) {
			below, ok := inside(r.Seen, target)
			if !ok {
				return "", over, r.dir.fail("resolve", name, ErrOutside)
			}
			target, done = below, "."
		}
		if len(target)+len(rest) > 2*unix.PathMax { // each link could make it longer
			return "", over, r.dir.fail("resolve", name, unix.ENAMETOOLONG)
		}
		rest = target + "/" + rest
	}
	return done, over, nil
}

// inside gives the name of an absolute path of those who fill a tree and know it as seen.
func inside(seen, target string) (string, bool) {
	if seen == "" {
		return "", false
	}
	// No path.Clean: what is before ".." may be a link.
	seen = strings.TrimSuffix(seen, "/")
	rest, ok := strings.CutPrefix(target, seen)
	return strings.TrimLeft(rest, "/"), ok && (rest == "" || rest[0] == '/')
}
