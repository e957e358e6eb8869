package overlay

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// keepModes gives directories of the upper layer the modes that they have in the tree,
// once all is in them: their owner may not write to some.
func keepModes(tree, upper string) error {
	var made []string
	err := filepath.WalkDir(upper, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && p != upper {
			made = append(made, p)
		}
		return err
	})
	for _, p := range slices.Backward(made) { // those inside first
		info, lerr := os.Lstat(filepath.Join(tree, strings.TrimPrefix(p, upper)))
		if lerr == nil && info.IsDir() && info.Mode()&0o700 != 0o700 {
			err = errors.Join(err, os.Chmod(p, info.Mode()&(os.ModePerm|os.ModeSticky)))
		}
	}
	return err
}

// mountPoint makes a mount point in the upper layer if the tree has none.
func mountPoint(tree, upper, target string, dir bool) error {
	resolved, err := securejoin.SecureJoin(tree, target)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(resolved); err == nil {
		return nil
	}
	rel, err := filepath.Rel(tree, resolved)
	if err != nil {
		return err
	}
	above := rel
	if !dir {
		above = filepath.Dir(rel)
	}
	if err := makeAbove(tree, upper, above); err != nil || dir {
		return err
	}
	return makePoint(filepath.Join(upper, rel), false)
}

// makeAbove makes a directory, by its path in the tree, in the upper layer.
func makeAbove(tree, upper, dir string) error {
	at := ""
	for _, p := range strings.Split(filepath.Clean(dir), "/") { // directories of the tree keep their modes
		at = filepath.Join(at, p)
		mode := os.FileMode(0o755)
		if info, err := os.Stat(filepath.Join(tree, at)); err == nil {
			mode = info.Mode() & (os.ModePerm | os.ModeSticky)
		}
		made := filepath.Join(upper, at)
		if err := os.Mkdir(made, 0o700); err != nil {
			if errors.Is(err, os.ErrExist) {
				continue
			}
			return err
		}
		if err := os.Chmod(made, mode|0o700); err != nil { // for what comes into it; see keepModes
			return err
		}
	}
	return nil
}

func makePoint(path string, dir bool) error {
	if dir {
		return os.Mkdir(path, 0o755)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}

// inside resolves a target's links in the image, for programs that follow them on the host.
func inside(tree, target string) string {
	resolved, err := securejoin.SecureJoin(tree, target)
	if err != nil {
		return target
	}
	return strings.TrimPrefix(resolved, filepath.Clean(tree))
}
