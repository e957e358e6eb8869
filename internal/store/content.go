package store

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"maps"

	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Matches reports whether a tree has the content of a manifest.
func Matches(tree string, m driver.Manifest) (bool, error) {
	is, err := Read(tree)
	return err == nil && maps.Equal(is.Files, m.Files) && (m.Shape == "" || m.Shape == is.Shape), err
}

// Content is what a tree consists of.
type Content struct {
	Files map[string]string // digests of files and links
	Bytes int64
	Shape string // digest of the kinds and names of all entries
}

// Read reads a tree that others have filled.
func Read(dir string) (Content, error) {
	c, shape := Content{Files: map[string]string{}}, sha256.New()
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return c, err
	}
	defer root.Close()
	err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintf(shape, "%s %q\n", info.Mode().Type(), name) //nolint:errcheck // a hash takes all
		if info.IsDir() {
			return nil
		}
		h := sha256.New()
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := root.Readlink(name)
			if err != nil {
				return err
			}
			io.WriteString(h, to) //nolint:errcheck // a hash takes all
		case info.Mode().IsRegular():
			n, err := hashFile(h, root, name)
			if err != nil {
				return err
			}
			c.Bytes += n
		}
		c.Files[name] = hex.EncodeToString(h.Sum(nil))
		return nil
	})
	c.Shape = hex.EncodeToString(shape.Sum(nil))
	return c, err
}

func hashFile(to io.Writer, root *fsutil.Root, name string) (int64, error) {
	f, err := root.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(to, f)
}
