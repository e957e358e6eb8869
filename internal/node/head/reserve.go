package head

import (
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// reserve is the space kept for the result and the last events, so that an
// attempt which fills the disk can still report so.
const reserve = 256 << 10

func reservePath(dir string) string { return filepath.Join(dir, ".reserve") }

func reserveSpace(path string) {
	f, err := fsutil.Empty(path, 0o600)
	if err != nil {
		return // a disk that is full already is noticed by what comes next
	}
	defer f.Close()
	core.BestEffort(unix.Fallocate(int(f.Fd()), 0, 0, reserve)) // not all file systems can
}
