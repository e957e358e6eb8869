package leasedir

import (
	"os"
	"path/filepath"
	"time"
)

// Try makes a directory that the caller removes, where a scratch directory is or could be
// made: the nearest directory that exists must be writable.
func Try(scratch string) (made string, err error) {
	dir := scratch
	for {
		_, err := os.Lstat(dir)
		if err == nil || dir == "/" {
			break
		}
		dir = filepath.Dir(dir)
	}
	dropOldProbes(dir)
	return os.MkdirTemp(dir, probePrefix)
}

// probePrefix begins the names of directories that a probe makes.
const probePrefix = ".bee-probe-"

// dropOldProbes removes what probes have left whose process was killed.
func dropOldProbes(dir string) {
	old, _ := filepath.Glob(filepath.Join(dir, probePrefix+"*"))
	for _, p := range old {
		if info, err := os.Lstat(p); err == nil && time.Since(info.ModTime()) > time.Minute {
			os.RemoveAll(p) //nolint:errcheck // not ours, or tried again next time
		}
	}
}
