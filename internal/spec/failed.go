package spec

import (
	"slices"
	"strings"
)

// Keys whose value could not be read hold none: what is checked of values must
// leave them alone, or one mistake is reported twice, the second time wrongly.

// fails notes that the value of a path could not be read.
func (r *report) fails(path string) { r.failed[path] = true }

// wasRead reports whether the value of a path could be read, or is not given: a
// key that is written wrong counts for the one that was probably meant.
func (r *report) wasRead(path string) bool {
	for p := path; ; p = parent(p) {
		if r.failed[p] {
			return false
		}
		if p == "" {
			return true
		}
	}
}

// allRead reports whether paths could be read with everything below them.
func (r *report) allRead(paths ...string) bool {
	for _, p := range paths {
		if !r.wasRead(p) {
			return false
		}
		for failed := range r.failed {
			if isBelow(failed, p) {
				return false
			}
		}
	}
	return true
}

// isBelow reports whether a path leads into the value of another.
func isBelow(path, other string) bool {
	return strings.HasPrefix(path, other+".") || strings.HasPrefix(path, other+"[")
}

// parent is the path around the last key or index of one.
func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// sorted gives the problems in the order of the file, each once; those of no
// place in it come first.
func sorted(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		if a.Column != b.Column {
			return a.Column - b.Column
		}
		return strings.Compare(a.Message, b.Message)
	})
	return slices.Compact(problems)
}
