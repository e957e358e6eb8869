// Package unpack applies the layers of images, which are tar streams, to a
// directory. It holds everything that is careful about what strangers put into
// an archive: no path, link or device of a layer reaches out of the directory,
// and no layer takes more of the disk than stated limits. It knows nothing of
// registries, manifests or caches.
package unpack

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Limits bound what an image may unpack to, so that a hostile one can neither
// fill the disk nor the memory.
type Limits struct {
	// Bytes of data and Entries of the whole tree.
	Bytes   int64
	Entries int64
	// Spare is how much of the disk stays free, in bytes.
	Spare int64
	// Ratio is how many times larger than its compressed form a layer may be, zeros
	// left out, once it is larger than RatioFrom bytes.
	Ratio, RatioFrom int64
}

// DefaultLimits allow for the largest images in practice. No gzip stream reaches the
// ratio: 1032 is the most that its format has.
func DefaultLimits() Limits {
	return Limits{Bytes: 200 << 30, Entries: 10_000_000, Spare: 256 << 20, Ratio: 1100, RatioFrom: 4 << 30}
}

const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
	aufs     = ".wh..wh." // begins names of aufs' own, in the root: no part of the image
	// maxPath and maxDepth bound a name in a layer; Linux itself takes no
	// longer path in one call, and no directory of ours shall be too deep to
	// be removed.
	maxPath  = 4095
	maxDepth = 256
	maxLinks = 40
)

// Unpacker applies layers, lowest first, to a directory that nobody else sees
// yet. Everything is made by the descriptor of the directory above it, which
// was reached without following a link that the kernel would resolve.
type Unpacker struct {
	root    string
	limits  Limits
	umask   uint32
	bytes   int64 // of all files, holes included
	data    int64 // of what was written
	entries int64
	checked int64 // data when the disk's free space was last looked at
	dirs    *dirs
	// fresh is what the present layer made, and the directories above it, by
	// canonical path: what its own whiteouts do not hide.
	fresh   map[string]bool
	buf     []byte
	unusual map[string]Unusual
	aufs    bool // the layer has files of aufs' own
	// copies are the names under which hard links continue that no more fit a file.
	copies map[string]string
}

// Unusual is what the tree itself cannot hold of a file: the owner that a layer
// names where that is not root (the file belongs to the caller: a container
// has one id), and a mode by which not even its owner may read it.
type Unusual struct {
	UID  int     `json:"u,omitempty"`
	GID  int     `json:"g,omitempty"`
	Mode *uint32 `json:"m,omitempty"`
}

// New prepares to unpack into root, an empty directory.
func New(root string, l Limits) (*Unpacker, error) {
	d, err := openDirs(root)
	if err != nil {
		return nil, err
	}
	// Most images say nothing of their root, which everybody may enter then, as with
	// docker: by a daemon, and in a machine, it is not of who runs the container.
	d.meta[""] = meta{mode: 0o755, time: time.Unix(0, 0)}
	return &Unpacker{root: root, limits: l, umask: umask(), dirs: d, buf: make([]byte, 256<<10), unusual: map[string]Unusual{}}, nil
}

// Close frees what New took. The directory stays.
func (u *Unpacker) Close() { u.dirs.close() }

// Bytes is the size of all files unpacked so far.
func (u *Unpacker) Bytes() int64 { return u.bytes }

// Unusual gives the files that have something unusual, by their paths in the tree.
func (u *Unpacker) Unusual() map[string]Unusual { return u.unusual }

// note keeps what is unusual about a file.
func (u *Unpacker) note(h *tar.Header, own string) {
	o := Unusual{UID: h.Uid, GID: h.Gid}
	mode := uint32(h.Mode & 0o7777)
	if h.Typeflag == tar.TypeDir && mode&0o500 != 0o500 || h.Typeflag == tar.TypeReg && mode&0o400 == 0 {
		o.Mode = &mode
	}
	if o == (Unusual{}) {
		delete(u.unusual, own)
		return
	}
	u.unusual[own] = o
}

// hostile is the error for an entry that no honest image has.
func hostile(name string, why error) error {
	return &core.Error{Kind: core.Invalid, Op: "unpack image entry", Object: name, Err: why, Remedy: "The image is damaged or hostile; get it from where it was made."}
}

// Layer applies one layer's uncompressed tar stream.
func (u *Unpacker) Layer(ctx context.Context, r io.Reader) error {
	u.fresh, u.aufs = map[string]bool{}, false
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return u.dropAufs()
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("read layer: %w", err)
		}
		if err := u.entry(ctx, h, t); err != nil {
			return u.explain(h.Name, err)
		}
	}
}

// explain gives an error of the file system a kind and a remedy. One of the stream
// gets none: only the owner of the stream knows why it is broken.
func (u *Unpacker) explain(name string, err error) error {
	if _, ours := errors.AsType[*core.Error](err); ours {
		return err
	}
	if _, ofFiles := errors.AsType[unix.Errno](err); !ofFiles {
		return fmt.Errorf("unpack image entry %s: %w", name, err)
	}
	e := &core.Error{Kind: core.KindOf(err), Op: "unpack image entry", Object: name, Err: err}
	if fsutil.IsFull(err) {
		e.Kind, e.Remedy = core.Transient, RemedyFull
	}
	return e
}

// dropAufs removes what aufs keeps for itself in a layer; its hard links stay.
func (u *Unpacker) dropAufs() error {
	if !u.aufs {
		return nil
	}
	names, err := readNames(u.dirs.root())
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, aufs) {
			if err := u.dirs.remove(u.dirs.root(), n, n); err != nil {
				return err
			}
		}
	}
	return nil
}

func (u *Unpacker) count(name string) error {
	if u.entries++; u.entries > u.limits.Entries {
		return hostile(name, fmt.Errorf("the image has more than %d entries", u.limits.Entries))
	}
	if u.entries%10_000 == 0 {
		return u.checkSpace(0)
	}
	return nil
}

func (u *Unpacker) entry(ctx context.Context, h *tar.Header, r io.Reader) error {
	if err := u.count(h.Name); err != nil {
		return err
	}
	if len(h.Name) > maxPath || strings.Count(h.Name, "/") > maxDepth {
		return hostile(h.Name[:min(len(h.Name), 80)], errors.New("its path is too long"))
	}
	name := path.Clean("/" + h.Name)[1:]
	if name == "" {
		if h.Typeflag == tar.TypeDir {
			u.dirs.meta[""] = metaOf(h)
		}
		return nil
	}
	above, base := path.Split(name)
	if first, _, _ := strings.Cut(name, "/"); strings.HasPrefix(first, aufs) && first != opaque {
		u.aufs = true
	}
	if hidden, ok := strings.CutPrefix(base, whiteout); ok {
		return u.whiteout(h.Name, above, hidden)
	}
	canon, fd, err := u.parent(above, h.ModTime)
	if err != nil {
		return err
	}
	own := join(canon, base)
	for p := own; p != "." && !u.fresh[p]; p = path.Dir(p) {
		u.fresh[p] = true
	}
	u.note(h, own)
	switch h.Typeflag {
	case tar.TypeDir:
		return u.directory(h, fd, base, own)
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return u.file(ctx, h, r, fd, base, own)
	case tar.TypeSymlink:
		return u.symlink(h, fd, base, own)
	case tar.TypeLink:
		return u.hardLink(h, fd, base, own)
	case tar.TypeFifo:
		return u.replace(fd, base, own, func() error { return unix.Mkfifoat(fd, base, uint32(h.Mode&0o777)) })
	case tar.TypeChar, tar.TypeBlock:
		// Device nodes cannot be made without root, and no container of ours
		// needs an image's: /dev is made again in each. What a lower layer has
		// in its place is hidden all the same.
		return u.dirs.remove(fd, base, own)
	}
	return nil // whatever else there is, is data of tar's own
}

// replace makes something; where a lower layer has something in its place,
// that is removed.
func (u *Unpacker) replace(fd int, base, own string, create func() error) error {
	err := create()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := u.dirs.remove(fd, base, own); err != nil {
		return err
	}
	return create()
}

func (u *Unpacker) directory(h *tar.Header, fd int, base, own string) error {
	// Writable until all is in; the real mode comes last.
	err := unix.Mkdirat(fd, base, 0o700)
	if errors.Is(err, fs.ErrExist) {
		var st unix.Stat_t
		if err = unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err == nil && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			if err = u.dirs.remove(fd, base, own); err == nil {
				err = unix.Mkdirat(fd, base, 0o700)
			}
		}
	}
	if err != nil {
		return err
	}
	u.dirs.meta[own] = metaOf(h)
	if !hasXattrs(h) {
		return nil
	}
	dir, err := u.dirs.at(own, fd, base)
	if err != nil {
		return err
	}
	return setXattrs(dir, h)
}

func (u *Unpacker) symlink(h *tar.Header, fd int, base, own string) error {
	if len(h.Linkname) > maxPath || h.Linkname == "" {
		return hostile(h.Name, errors.New("its target is empty or too long"))
	}
	if err := u.replace(fd, base, own, func() error { return unix.Symlinkat(h.Linkname, fd, base) }); err != nil {
		return err
	}
	return unix.UtimesNanoAt(fd, base, times(h.ModTime), unix.AT_SYMLINK_NOFOLLOW)
}

func (u *Unpacker) hardLink(h *tar.Header, fd int, base, own string) error {
	source := path.Clean("/" + h.Linkname)[1:]
	above, from := path.Split(source)
	canon, dir, err := u.dirs.walk(above, nil)
	if err == nil && join(canon, from) == own {
		return nil
	}
	if err == nil && strings.HasPrefix(join(canon, from), own+"/") {
		err = errors.New("it lies inside of the link")
	}
	// The walk may have closed the descriptor that we had.
	if err == nil {
		if fd, err = u.dirs.at(path.Dir(own), -1, ""); err == nil {
			err = u.replace(fd, base, own, func() error { return unix.Linkat(dir, from, fd, base, 0) })
		}
	}
	if errors.Is(err, unix.EMLINK) {
		return u.linkCopy(join(canon, from), dir, from, fd, base, own)
	}
	if err != nil {
		return hostile(h.Name, fmt.Errorf("it is a hard link to %s, which is no file of the image: %w", h.Linkname, err))
	}
	delete(u.unusual, own) // it is notified of the first name
	return nil
}

// whiteout hides what lower layers have; what the layer itself has stays.
func (u *Unpacker) whiteout(name, above, hidden string) error {
	isOpaque := hidden == opaque[len(whiteout):]
	if !isOpaque && (hidden == "" || hidden == "." || hidden == "..") {
		return hostile(name, errors.New("it hides nothing"))
	}
	canon, fd, err := u.dirs.walk(above, nil)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	if !isOpaque {
		return u.hide(fd, hidden, join(canon, hidden))
	}
	return u.hideAll(fd, canon)
}

func (u *Unpacker) hideAll(fd int, canon string) error {
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := u.hide(fd, n, join(canon, n)); err != nil {
			return err
		}
	}
	return nil
}

func (u *Unpacker) hide(fd int, base, own string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && u.fresh[own] {
		dir, err := unix.Openat(fd, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		return u.hideAll(dir, own)
	}
	if u.fresh[own] {
		return nil
	}
	return u.dirs.remove(fd, base, own)
}

// parent finds the directory for an entry, made where the layer takes it for
// granted.
func (u *Unpacker) parent(above string, when time.Time) (canon string, fd int, err error) {
	return u.dirs.walk(above, func(dir string) error {
		if err := u.count(dir); err != nil {
			return err
		}
		u.dirs.meta[dir] = meta{mode: 0o755, time: when}
		return nil
	})
}

func (u *Unpacker) checkSpace(need int64) error {
	u.checked = u.data
	if err := u.limits.spare(u.dirs.root(), u.root, need); err != nil {
		return &core.Error{Kind: core.Transient, Op: "unpack image", Err: err, Remedy: RemedyFull}
	}
	return nil
}

func umask() uint32 {
	// Reading it any other way means to set it, for all threads.
	raw, err := os.ReadFile("/proc/self/status")
	mask := uint32(0o777)
	if _, after, ok := strings.Cut(string(raw), "\nUmask:\t"); err == nil && ok {
		core.BestEffort(fmt.Sscanf(after, "%o", &mask)) // then every mode is set
	}
	return mask
}
