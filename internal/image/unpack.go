package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// Limits bound what an image may unpack to, so that a hostile one cannot fill
// the disk.
type Limits struct {
	// Bytes and Entries of the whole tree.
	Bytes   int64
	Entries int64
	// Spare is how much of the disk stays free, in bytes.
	Spare int64
}

// DefaultLimits allow for the largest images in practice.
func DefaultLimits() Limits { return Limits{Bytes: 200 << 30, Entries: 10_000_000, Spare: 256 << 20} }

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// unpacker applies layers, lowest first, to a tree that nobody else sees yet.
// No path, link or device of a layer can reach out of the tree: parents are
// resolved as if the tree were the root, last elements are never followed.
type unpacker struct {
	root    string
	limits  Limits
	bytes   int64
	entries int64
	modes   map[string]fs.FileMode // of directories, set at the end
	times   map[string]time.Time
	// fresh are the paths of the present layer, which its own opaque
	// directories do not hide.
	fresh map[string]bool
}

func newUnpacker(root string, l Limits) *unpacker {
	return &unpacker{root: root, limits: l, modes: map[string]fs.FileMode{}, times: map[string]time.Time{}}
}

func hostile(name string, why error) error {
	return &core.Error{Kind: core.Invalid, Op: "unpack image entry", Object: name, Err: why, Remedy: "The image is damaged or hostile; get it from where it was made."}
}

// layer applies one layer's uncompressed tar stream.
func (u *unpacker) layer(ctx context.Context, r io.Reader) error {
	u.fresh = map[string]bool{}
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read layer: %w", err)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if u.entries++; u.entries > u.limits.Entries {
			return hostile(h.Name, fmt.Errorf("the image has more than %d entries", u.limits.Entries))
		}
		if err := u.entry(h, t); err != nil {
			return err
		}
	}
}

func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	name := path.Clean("/" + h.Name)
	if name == "/" {
		if h.Typeflag == tar.TypeDir {
			u.modes[u.root] = h.FileInfo().Mode()
		}
		return nil
	}
	parent, err := securejoin.SecureJoin(u.root, path.Dir(name))
	if err != nil {
		return hostile(h.Name, err)
	}
	if err := u.makeParent(parent); err != nil {
		return hostile(h.Name, err)
	}
	base := path.Base(name)
	if base == opaque {
		return u.hideAll(parent)
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		if hidden == "" || hidden == "." || hidden == ".." {
			return hostile(h.Name, errors.New("it hides nothing"))
		}
		return u.remove(filepath.Join(parent, hidden))
	}
	target := filepath.Join(parent, base)
	u.fresh[target] = true
	return u.create(h, r, target)
}

// makeParent makes directories that the layer takes for granted, and replaces
// a file that an earlier layer had in their place.
func (u *unpacker) makeParent(dir string) error {
	info, err := os.Lstat(dir)
	if err == nil && info.IsDir() {
		return nil
	}
	if err == nil {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o755)
}

// hideAll removes what lower layers have in a directory.
func (u *unpacker) hideAll(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		p := filepath.Join(dir, e.Name())
		if u.fresh[p] {
			continue
		}
		if err := u.remove(p); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacker) remove(p string) error {
	for known := range u.modes {
		if known == p || strings.HasPrefix(known, p+"/") {
			delete(u.modes, known)
			delete(u.times, known)
		}
	}
	return filestream.RemoveAll(p)
}

func (u *unpacker) create(h *tar.Header, r io.Reader, target string) error {
	info, err := os.Lstat(target)
	exists := err == nil
	if h.Typeflag == tar.TypeDir {
		if exists && !info.IsDir() {
			if err := u.remove(target); err != nil {
				return err
			}
		}
		// Writable until all is in; the real mode comes last.
		if err := os.MkdirAll(target, 0o755); err != nil {
			return err
		}
		u.modes[target], u.times[target] = h.FileInfo().Mode(), h.ModTime
		return u.xattrs(h, target)
	}
	if exists && !(h.Typeflag == tar.TypeLink && u.isTarget(h, target)) {
		if err := u.remove(target); err != nil {
			return err
		}
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeRegA: //nolint:staticcheck // old archives have it
		return u.file(h, r, target)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, target)
	case tar.TypeLink:
		return u.hardLink(h, target)
	case tar.TypeFifo:
		return unix.Mkfifo(target, uint32(h.FileInfo().Mode().Perm()))
	}
	// Device nodes cannot be made without root, and no container of ours needs
	// an image's: /dev is made anew in each. Whatever else there is, is data
	// of tar's own.
	return nil
}

func (u *unpacker) isTarget(h *tar.Header, target string) bool {
	p, err := securejoin.SecureJoin(u.root, h.Linkname)
	return err == nil && p == target
}

func (u *unpacker) hardLink(h *tar.Header, target string) error {
	dir, err := securejoin.SecureJoin(u.root, path.Dir(path.Clean("/"+h.Linkname)))
	if err != nil {
		return hostile(h.Name, err)
	}
	source := filepath.Join(dir, path.Base(h.Linkname))
	if source == target {
		return nil
	}
	info, err := os.Lstat(source)
	if err != nil || info.IsDir() {
		return hostile(h.Name, fmt.Errorf("it is a hard link to %s, which is no file of the image", h.Linkname))
	}
	return os.Link(source, target)
}

func (u *unpacker) file(h *tar.Header, r io.Reader, target string) error {
	if u.bytes += h.Size; u.bytes > u.limits.Bytes {
		return hostile(h.Name, fmt.Errorf("the image unpacks to more than %d bytes", u.limits.Bytes))
	}
	if h.Size > 1<<20 {
		if err := u.checkSpace(h.Size); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.CopyN(f, r, h.Size); err != nil {
		f.Close()
		return fmt.Errorf("unpack %s: %w", h.Name, err)
	}
	if err := u.xattrs(h, target); err != nil {
		f.Close()
		return err
	}
	if err := f.Chmod(h.FileInfo().Mode()); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(target, h.ModTime, h.ModTime)
}

func (u *unpacker) checkSpace(need int64) error {
	var st unix.Statfs_t
	if err := unix.Statfs(u.root, &st); err != nil {
		return nil //nolint:nilerr // then the write itself will tell
	}
	if free := int64(st.Bavail) * st.Bsize; free < need+u.limits.Spare {
		return &core.Error{Kind: core.Permanent, Op: "unpack image", Err: fmt.Errorf("the disk of %s is nearly full: %d bytes are free", u.root, free),
			Remedy: "Free space, `bee image prune`, or choose another cache with --cache."}
	}
	return nil
}

// xattrs sets those of the user's own namespace; others need rights that an
// ordinary user lacks and mean nothing under a single id.
func (u *unpacker) xattrs(h *tar.Header, target string) error {
	for key, value := range h.PAXRecords {
		name, ok := strings.CutPrefix(key, "SCHILY.xattr.")
		if !ok || !strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "user.overlay.") {
			continue
		}
		if err := unix.Lsetxattr(target, name, []byte(value), 0); err != nil && !errors.Is(err, unix.ENOTSUP) {
			return fmt.Errorf("set %s of %s: %w", name, h.Name, err)
		}
	}
	return nil
}

// finish gives directories their modes and times, deepest first.
func (u *unpacker) finish() error {
	var dirs []string
	for d := range u.modes {
		dirs = append(dirs, d)
	}
	sortLongestFirst(dirs)
	for _, d := range dirs {
		if t, ok := u.times[d]; ok {
			if err := os.Chtimes(d, t, t); err != nil {
				return err
			}
		}
		if err := os.Chmod(d, u.modes[d]); err != nil {
			return err
		}
	}
	return nil
}
