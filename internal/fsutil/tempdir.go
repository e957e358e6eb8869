package fsutil

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// soon is the age at which a temporary directory has no user any more.
const soon = time.Hour

// TempDir makes a directory whose name is a prefix and a number, which the caller removes:
// in another directory, or, where that is "", in the one for temporary files. It removes
// those that killed processes of this user have left there. A place where others can replace
// what this user makes is refused: see CheckParents. Else the error is os.MkdirTemp's.
func TempDir(in, prefix string) (made string, err error) {
	if in == "" {
		in = os.TempDir()
	}
	if in, err = filepath.Abs(in); err != nil {
		return "", err
	}
	if err := CheckParents(filepath.Join(in, prefix)); err != nil {
		return "", err
	}
	entries, _ := os.ReadDir(in)
	for _, e := range entries {
		number, is := strings.CutPrefix(e.Name(), prefix)
		if _, err := strconv.ParseUint(number, 10, 64); !is || err != nil || !e.IsDir() {
			continue
		}
		if info, err := e.Info(); err == nil && own(info) && time.Since(info.ModTime()) > soon {
			TryRemoveAll(filepath.Join(in, e.Name())) // tried again next time
		}
	}
	return os.MkdirTemp(in, prefix)
}

func own(info os.FileInfo) bool {
	st, is := info.Sys().(*syscall.Stat_t)
	return is && int(st.Uid) == os.Geteuid()
}
