package fsutil

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Match reports whether a pattern matches a whole name, element by element. The rules of
// each element are those of path.Match, and a shell's for hidden files: a dot at the
// beginning is matched only by a dot in the pattern. The error is path.ErrBadPattern.
func Match(pattern, name string) (bool, error) {
	patterns, names := strings.Split(pattern, "/"), strings.Split(name, "/")
	matched := len(patterns) == len(names)
	for i, p := range patterns {
		of := ""
		if matched {
			of = names[i]
		}
		is, err := matchElement(p, of)
		if err != nil {
			return false, err
		}
		matched = matched && is
	}
	return matched, nil
}

func matchElement(pattern, name string) (bool, error) {
	is, err := path.Match(pattern, name)
	if err != nil {
		return false, err
	}
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(strings.TrimPrefix(pattern, `\`), ".") {
		return false, nil
	}
	return is, nil
}

// QuoteGlob gives the pattern that matches a path as it is.
func QuoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// maxMatches bounds what one pattern gives: links in a tree could multiply it.
const maxMatches = 1 << 20

// Glob gives the names that a pattern matches, in order, by the rules of Match. Elements
// before the last may be links: it looks at what they lead to inside the tree, and at
// nothing outside. A match may be a link itself, and dangle. Directories that cannot be
// read are reported by the error, beside the names that were found.
func (r *Root) Glob(pattern string) ([]string, error) {
	if _, err := Match(pattern, ""); err != nil {
		return nil, err
	}
	elements := strings.Split(path.Clean(pattern), "/")
	if slices.Contains(elements, "..") || path.IsAbs(pattern) {
		return nil, &fs.PathError{Op: "glob", Path: pattern, Err: ErrOutside}
	}
	found, unread := []string{"."}, []error(nil)
	for _, element := range elements {
		if element == "." {
			continue
		}
		var next []string
		for _, dir := range found {
			more, err := r.globIn(dir, element)
			next, unread = append(next, more...), append(unread, err)
			if len(next) > maxMatches {
				return nil, &fs.PathError{Op: "glob", Path: r.Path(pattern), Err: fmt.Errorf("more than %d matches", maxMatches)}
			}
		}
		found = next
	}
	slices.Sort(found)
	return slices.Compact(found), errors.Join(unread...)
}

// globIn gives the names in one directory that an element of a pattern matches.
func (r *Root) globIn(dir, element string) ([]string, error) {
	at, err := r.Resolve(dir)
	if err != nil {
		return nil, known(err)
	}
	var names []string
	if name, plain := unquote(element); plain {
		there, err := r.Exists(path.Join(at, name))
		if err != nil || !there {
			return nil, err
		}
		names = []string{name}
	} else if names, err = r.ReadDir(at); err != nil {
		return nil, known(err)
	}
	var found []string
	for _, name := range names {
		if is, _ := matchElement(element, name); is { // Glob has checked the pattern
			found = append(found, path.Join(dir, name))
		}
	}
	return found, nil
}

// known leaves out errors that say for certain that nothing is there.
func known(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, ErrOutside) {
		return nil
	}
	return err
}

// unquote gives the one name that an element of a pattern matches, if it has no wildcards.
func unquote(element string) (string, bool) {
	if strings.ContainsAny(element, "*?[") {
		return "", false
	}
	var name strings.Builder
	for i := 0; i < len(element); i++ {
		if element[i] == '\\' && i+1 < len(element) {
			i++
		}
		name.WriteByte(element[i])
	}
	return name.String(), true
}
