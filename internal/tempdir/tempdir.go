// Package tempdir makes directories for what is soon over, of which little is left where
// who made them was killed.
package tempdir

import (
	"os"
	"path/filepath"
	"time"
)

// soon is within which time each of them has been removed, or else never will be.
const soon = time.Hour

// Make makes a directory whose name begins with a prefix, which the caller removes: in
// another directory, or in that for temporary ones where that is "". It removes those
// that others have left there. The error is os.MkdirTemp's.
func Make(in, prefix string) (string, error) {
	if in == "" {
		in = os.TempDir()
	}
	entries, _ := os.ReadDir(in)
	for _, e := range entries {
		if match, _ := filepath.Match(prefix+"*", e.Name()); !match || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > soon {
			os.RemoveAll(filepath.Join(in, e.Name())) //nolint:errcheck // not ours, or tried again next time
		}
	}
	return os.MkdirTemp(in, prefix)
}
