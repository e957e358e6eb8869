package filestream

import (
	"io/fs"
	"path/filepath"
	"sort"
)

// Match lists, relative to root, every file below it that a glob matches or that
// lies in a directory which one matches, as SendMany takes them.
func Match(root string, globs []string) []string {
	seen := map[string]bool{}
	for _, glob := range globs {
		matches, err := filepath.Glob(filepath.Join(root, glob))
		if err != nil {
			continue
		}
		for _, m := range matches {
			filepath.WalkDir(m, func(path string, d fs.DirEntry, err error) error { //nolint:errcheck // what cannot be read is not there
				if err == nil && !d.IsDir() {
					if rel, err := filepath.Rel(root, path); err == nil {
						seen[rel] = true
					}
				}
				return nil
			})
		}
	}
	files := make([]string, 0, len(seen))
	for f := range seen {
		files = append(files, f)
	}
	sort.Strings(files)
	return files
}
