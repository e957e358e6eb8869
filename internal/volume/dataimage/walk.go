package dataimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// walk visits every file of the image, directories before what is in them, by
// path without a leading slash, in the order of fs.WalkDir.
func (i *Image) walk(ctx context.Context, visit func(name string, e entry) error) error {
	root, err := i.inode(rootInode)
	if err != nil {
		return err
	}
	return i.walkIn(ctx, "", root, map[int64]bool{rootInode: true}, visit)
}

// walkIn: seen are the directories so far, which a damaged image may have as
// their own descendants.
func (i *Image) walkIn(ctx context.Context, dir string, n *Inode, seen map[int64]bool, visit func(string, entry) error) error {
	list, err := i.list(n)
	if err != nil {
		return err
	}
	for _, e := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := path.Join(dir, e.name)
		if err := visit(name, e); err != nil {
			return err
		}
		if !e.IsDir() {
			continue
		}
		if seen[e.inode.Number] {
			return damaged("directory %s has two places", name)
		}
		seen[e.inode.Number] = true
		if err := i.walkIn(ctx, name, e.inode, seen, visit); err != nil {
			return err
		}
	}
	return nil
}

// sum is the digest of a tree: names, kinds, permissions and contents. Owners
// and times do not count, for they are not the same everywhere.
type sum struct{ h hash.Hash }

func newSum() sum { return sum{sha256.New()} }

func (s sum) add(ctx context.Context, name string, mode fs.FileMode, target string, c *content) error {
	if mode&(fs.ModeDevice|fs.ModeSocket) != 0 {
		return nil // no one's data: see Unload
	}
	fmt.Fprintf(s.h, "%q %v %q", name, mode, target)
	if c != nil {
		if err := s.addContent(ctx, c); err != nil {
			return err
		}
	}
	fmt.Fprintln(s.h)
	return nil
}

// zeroBlock is how many zeros at once, from a multiple of it on, a digest has as their
// place alone.
const zeroBlock = 64 << 10

// addContent adds where a file has blocks of zeros, and the digest of all else. Holes need
// not be read so, which would take hours of a file that is nothing else, and where they are
// written as zeros, the digest is the same.
func (s sum) addContent(ctx context.Context, c *content) error {
	inner := sha256.New()
	block, zeros := make([]byte, zeroBlock), make([]byte, zeroBlock)
	behind := int64(0) // what was added last
	gap := func(to int64) {
		if to > behind {
			fmt.Fprintf(s.h, " %d-%d", behind, to)
		}
	}
	for c.at < c.end {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if whole := c.hole() / zeroBlock * zeroBlock; whole > 0 {
			c.at += whole
			continue
		}
		from := c.at
		n, err := io.ReadFull(c, block[:min(zeroBlock, c.end-from)])
		if err != nil {
			return err
		}
		if bytes.Equal(block[:n], zeros) {
			continue
		}
		gap(from)
		inner.Write(block[:n])
		behind = c.at
	}
	gap(c.end)
	fmt.Fprintf(s.h, " %x", inner.Sum(nil))
	return nil
}

func (s sum) String() string { return "sha256:" + hex.EncodeToString(s.h.Sum(nil)) }

// Digest is that of what the image holds: the same as DigestOf a directory with
// the same in it.
func (i *Image) Digest(ctx context.Context) (string, error) {
	return i.digest(ctx, func(mode fs.FileMode) fs.FileMode { return mode })
}

// DigestUnloaded is that of a directory into which all of the image was unloaded.
func (i *Image) DigestUnloaded(ctx context.Context) (string, error) {
	return i.digest(ctx, func(mode fs.FileMode) fs.FileMode { return mode.Type() | permissions(mode) })
}

func (i *Image) digest(ctx context.Context, mode func(fs.FileMode) fs.FileMode) (string, error) {
	s := newSum()
	err := i.walk(ctx, func(name string, e entry) error {
		switch {
		case e.Mode()&fs.ModeSymlink != 0:
			target, err := i.target(e.inode)
			if err != nil {
				return err
			}
			return s.add(ctx, name, e.Mode().Type(), target, nil)
		case e.Mode().IsRegular():
			c, err := i.open(e.inode)
			if err != nil {
				return err
			}
			return s.add(ctx, name, mode(e.Mode()), "", c)
		}
		return s.add(ctx, name, mode(e.Mode()), "", nil)
	})
	return s.String(), err
}

// DigestOf is the digest of a directory on this host. Anyone who fills the directory
// meanwhile leads it nowhere else.
func DigestOf(ctx context.Context, dir string) (string, error) {
	root, err := fsutil.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer root.Close()
	s := newSum()
	err = root.Walk(".", func(name string, info fs.FileInfo, err error) error {
		if err != nil || name == "." || name == lostAndFound {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := root.Readlink(name)
			if err != nil {
				return err
			}
			return s.add(ctx, name, info.Mode().Type(), target, nil)
		case info.Mode().IsRegular():
			return withContent(root, name, func(c *content) error { return s.add(ctx, name, info.Mode(), "", c) })
		}
		return s.add(ctx, name, info.Mode(), "", nil)
	})
	return s.String(), err
}

// File is one of an image, for people.
type File struct {
	Path string `json:"path"`
	// Kind is file, dir, link or other.
	Kind     string `json:"kind"`
	Mode     string `json:"mode"` // as ls shows it
	Size     int64  `json:"size"` // bytes
	Modified string `json:"modified"`
	// Changed is Modified as it is, with its fractions.
	Changed time.Time `json:"-"`
	Target  string    `json:"target,omitempty"` // of a link
}

// Files lists what an image holds.
func (i *Image) Files(ctx context.Context) ([]File, error) {
	list := []File{}
	err := i.walk(ctx, func(name string, e entry) error {
		f := File{Path: name, Kind: "other", Mode: modeText(e.Mode()), Size: e.Size(), Modified: e.ModTime().UTC().Format("2006-01-02T15:04:05Z"), Changed: e.ModTime()}
		switch e.Type() {
		case 0:
			f.Kind = "file"
		case fs.ModeDir:
			f.Kind = "dir"
		case fs.ModeSymlink:
			f.Kind = "link"
			var err error
			if f.Target, err = i.target(e.inode); err != nil {
				return err
			}
		}
		list = append(list, f)
		return nil
	})
	return list, err
}

// modeText is a mode as ls shows it, which Go's own text of links and of the bits
// above the permissions is not.
func modeText(m fs.FileMode) string {
	text := []byte("-" + m.Perm().String()[1:])
	for bit, letter := range map[fs.FileMode]byte{fs.ModeDir: 'd', fs.ModeSymlink: 'l', fs.ModeNamedPipe: 'p', fs.ModeSocket: 's', fs.ModeDevice: 'b', fs.ModeDevice | fs.ModeCharDevice: 'c'} {
		if m.Type() == bit {
			text[0] = letter
		}
	}
	for i, bit := range []fs.FileMode{fs.ModeSetuid, fs.ModeSetgid, fs.ModeSticky} {
		if at := 3 * (i + 1); m&bit != 0 {
			runs := text[at] == 'x'
			if text[at] = "sst"[i]; !runs {
				text[at] = "SST"[i]
			}
		}
	}
	return string(text)
}
