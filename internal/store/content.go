package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"math"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Bounds of a tree's holes: they take no space, and as long to read as data. A file system
// that compresses has blocks fewer than its files' sizes, but never by so much.
const (
	mostHoles      = 16 << 40 // bytes
	mostHolesRatio = 64       // of sizes to blocks
)

// Matches reports whether a tree has the content of a manifest. No more bytes than the
// manifest's are read.
func Matches(ctx context.Context, tree string, m driver.Manifest) (bool, error) {
	root, err := fsutil.OpenRoot(tree)
	if err != nil {
		return false, err
	}
	defer root.Close()
	return MatchesIn(ctx, root, m)
}

// MatchesIn is Matches for a tree that is open.
func MatchesIn(ctx context.Context, tree *fsutil.Root, m driver.Manifest) (bool, error) {
	is, err := read(ctx, tree, m.Bytes)
	if errors.Is(err, errMore) {
		return false, nil
	}
	return err == nil && is.fits(m), err
}

func (c Content) fits(m driver.Manifest) bool {
	return maps.Equal(c.Files, m.Files) && (m.Shape == "" || m.Shape == c.Shape)
}

// Same reports whether a checkpoint, as kept, is a copy of another.
func Same(kept, of driver.Manifest) bool {
	return Content{Files: kept.Files, Shape: kept.Shape}.fits(of)
}

// Content is what a tree consists of.
type Content struct {
	Files map[string]string // digests of files and links
	Bytes int64
	Shape string // digest of the kinds and names of all entries
}

// Read reads a tree that others have filled. One that is mostly holes, and larger than any
// disk, is an error.
func Read(ctx context.Context, dir string) (Content, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return Content{}, err
	}
	defer root.Close()
	return read(ctx, root, math.MaxInt64)
}

var errMore = errors.New("the tree is larger than it was")

// read fails with errMore where files have more than so many bytes.
func read(ctx context.Context, root *fsutil.Root, most int64) (Content, error) {
	c, shape := Content{Files: map[string]string{}}, sha256.New()
	var room extent
	buf := make([]byte, 256<<10)
	err := root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		fmt.Fprintf(shape, "%s %q\n", info.Mode().Type(), name)
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
			io.WriteString(h, to)
		case info.Mode().IsRegular():
			if info.Size() > most-c.Bytes {
				return errMore
			}
			if err := room.add(root.Path(name), info); err != nil {
				return err
			}
			n, err := hashFile(ctx, h, root, name, most-c.Bytes, buf)
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

// extent adds up how large files are, and how much of a disk they take.
type extent struct{ size, blocks int64 }

func (e *extent) add(name string, info fs.FileInfo) error {
	st, is := info.Sys().(*syscall.Stat_t)
	if !is || info.Size() > math.MaxInt64-e.size {
		return tooSparse(name)
	}
	e.size += info.Size()
	e.blocks += min(st.Blocks*512, info.Size())
	if e.size-e.blocks > mostHoles && e.size/mostHolesRatio > e.blocks {
		return tooSparse(name)
	}
	return nil
}

func tooSparse(name string) error {
	return &core.Error{
		Kind: core.Permanent, Op: "read", Object: name, Err: fmt.Errorf("it has holes, with the files before it, of more than %d TiB", mostHoles>>40),
		Remedy: "No job computes so much: remove the file, or see who may write there.",
	}
}

// hashFile fails with errMore where the file has more than so many bytes: it may grow.
func hashFile(ctx context.Context, to hash.Hash, root *fsutil.Root, name string, most int64, buf []byte) (int64, error) {
	f, err := root.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	for total := int64(0); ; {
		if err := ctx.Err(); err != nil {
			return total, err
		}
		n, err := f.Read(buf)
		to.Write(buf[:n])
		if total += int64(n); total > most {
			return total, errMore
		}
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
