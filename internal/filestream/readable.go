package filestream

import (
	"io/fs"
	"os"
	"path/filepath"
)

// MakeReadable allows the owner of a tree to read all of it, as far as that is us;
// links are left alone. Nobody else may change the tree meanwhile.
func MakeReadable(root string) {
	filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error { //nolint:errcheck // what stays shut is told by who reads it
		if err != nil || !d.IsDir() && !d.Type().IsRegular() {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // see above
		}
		need, give := fs.FileMode(0o400), fs.FileMode(0o400)
		if d.IsDir() {
			need, give = 0o500, 0o700 // a copy of it can be removed, too
		}
		if mode := info.Mode(); mode&need != need {
			os.Chmod(p, mode|give) //nolint:errcheck // see above
		}
		return nil
	})
}
