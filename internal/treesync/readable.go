package treesync

import (
	"io/fs"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// MakeReadable allows the owner of a tree to read all of it, as far as that is us;
// links are left alone.
func MakeReadable(root *fsutil.Root, name string) {
	core.BestEffort(root.Walk(name, func(name string, info fs.FileInfo, err error) error { // what stays shut is reported by its reader
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
			return nil // see above
		}
		need, more := fs.FileMode(0o400), fs.FileMode(0o400)
		if info.IsDir() {
			need, more = 0o500, 0o700 // a copy of it can be removed, too
		}
		if mode := info.Mode(); mode&need != need {
			core.BestEffort(root.Chmod(name, mode|more))
		}
		return nil
	}))
}
