package filestream

import (
	"path/filepath"
	"strings"
)

// Glob gives what below root matches a pattern, in order. It follows no link out
// of root: who has filled root may not know, or not be meant to reach, what lies
// outside.
func Glob(root, pattern string) ([]string, error) {
	found, err := filepath.Glob(filepath.Join(QuoteGlob(root), pattern))
	if err != nil || len(found) == 0 {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, err
	}
	var inside []string
	for _, f := range found {
		if f == filepath.Clean(root) {
			inside = append(inside, f)
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Dir(f))
		if err == nil && (dir == real || strings.HasPrefix(dir, real+"/")) {
			inside = append(inside, f)
		}
	}
	return inside, nil
}

// QuoteGlob has a pattern match a path as it is.
func QuoteGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
