// Package tempdir makes directories for what is soon over, of which little is left where
// who made them was killed.
package tempdir

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// soon is within which time each of them has been removed, or else never will be.
const soon = time.Hour

// Make makes a directory whose name is a prefix and a number, which the caller removes: in
// another directory, or in that for temporary ones where that is "". It removes those
// that this user's processes have left there. The error is os.MkdirTemp's.
func Make(in, prefix string) (string, error) {
	if in == "" {
		in = os.TempDir()
	}
	entries, _ := os.ReadDir(in)
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), prefix)
		if _, err := strconv.ParseUint(number, 10, 64); !is || err != nil || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && own(info) && time.Since(info.ModTime()) > soon {
			os.RemoveAll(filepath.Join(in, e.Name())) //nolint:errcheck // tried again next time
		}
	}
	return os.MkdirTemp(in, prefix)
}

func own(info os.FileInfo) bool {
	st, is := info.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Geteuid()
}
