package treesync

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Lacks reports whether a tree has nothing at a name, and a file can be put there: no element
// before its last is there as anything but a directory.
func Lacks(tree *fsutil.Root, name string) bool {
	if there, err := tree.Exists(name); there || err != nil {
		return false
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := tree.Lstat(dir)
		if err == nil {
			return info.IsDir()
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}

// Add copies to a tree the files of another that it lacks.
func Add(ctx context.Context, from, into *fsutil.Root) error {
	files, unread := Match(from, []string{"."})
	var missing []string
	for _, f := range files {
		if Lacks(into, f) {
			missing = append(missing, f)
		}
	}
	return errors.Join(unread, CopyMany(ctx, from.Path("."), missing, into.Path(".")))
}
