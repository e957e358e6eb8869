package filestream

import "github.com/bee-hpc/bee/internal/fsutil"

// QuoteGlob is fsutil.QuoteGlob.
func QuoteGlob(path string) string { return fsutil.QuoteGlob(path) }
