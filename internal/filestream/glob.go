package filestream

import (
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Glob gives what below root matches a pattern, in order, by the rules of fsutil.Match.
// It follows no link out of root.
func Glob(root, pattern string) ([]string, error) {
	r, err := fsutil.OpenRoot(root)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	found, err := r.Glob(pattern)
	for i, name := range found {
		found[i] = filepath.Join(root, name)
	}
	return found, err
}

// QuoteGlob is fsutil.QuoteGlob.
func QuoteGlob(path string) string { return fsutil.QuoteGlob(path) }
