package image

import (
	"archive/tar"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/image/unpack"
	"golang.org/x/sys/unix"
)

// writeTar writes an image's tree as a tar stream, in order of names, with
// hard links, user attributes, and the owners and modes that its layers reported.
// The same tree gives the same stream.
func (c content) writeTar(ctx context.Context, w io.Writer) error {
	t := &tarTree{ctx: ctx, links: map[[2]uint64]string{}, buf: make([]byte, 256<<10)}
	raw, err := os.ReadFile(c.dir.path("images", c.record.ID) + ".odd")
	if err == nil {
		err = json.Unmarshal(raw, &t.unusual)
	}
	if gone(err) != nil {
		return err
	}
	root, err := os.Open(c.dir.path("trees", c.record.ID))
	if err != nil {
		return err
	}
	defer root.Close()
	b := bufio.NewWriterSize(w, 256<<10)
	t.w = tar.NewWriter(b)
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return err
	}
	if err := t.w.WriteHeader(t.header("./", "", &st)); err != nil {
		return err
	}
	if err := t.dir(root, ""); err != nil {
		return err
	}
	return errors.Join(t.w.Close(), b.Flush())
}

type tarTree struct {
	ctx     context.Context
	w       *tar.Writer
	unusual map[string]unpack.Unusual
	links   map[[2]uint64]string
	buf     []byte
}

func (t *tarTree) dir(d *os.File, name string) error {
	names, err := d.Readdirnames(-1)
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, n := range names {
		if err := t.ctx.Err(); err != nil {
			return context.Cause(t.ctx)
		}
		if err := t.entry(int(d.Fd()), n, path.Join(name, n)); err != nil {
			return err
		}
	}
	return nil
}

func (t *tarTree) entry(above int, base, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(above, base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		if err := t.w.WriteHeader(t.header(name+"/", "", &st)); err != nil {
			return err
		}
		d, err := openAny(above, base, name, unix.O_DIRECTORY, &st)
		if err != nil {
			return err
		}
		defer d.Close()
		if st.Mode&0o500 != 0o500 { // reading took more than the mode allows
			defer unix.Fchmod(int(d.Fd()), st.Mode&0o7777) //nolint:errcheck // unpack.Unusual knows it
		}
		return t.dir(d, name)
	case unix.S_IFLNK:
		target := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(above, base, target)
		if err != nil {
			return &fs.PathError{Op: "readlink", Path: name, Err: err}
		}
		return t.w.WriteHeader(t.header(name, string(target[:n]), &st))
	case unix.S_IFREG:
		return t.file(above, base, name, &st)
	case unix.S_IFIFO:
		return t.w.WriteHeader(t.header(name, "", &st))
	}
	return nil
}

func (t *tarTree) header(name, link string, st *unix.Stat_t) *tar.Header {
	h := &tar.Header{Name: name, Linkname: link, Mode: int64(st.Mode & 0o7777), ModTime: time.Unix(st.Mtim.Unix()), Format: tar.FormatPAX}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		h.Typeflag = tar.TypeDir
	case unix.S_IFLNK:
		h.Typeflag = tar.TypeSymlink
	case unix.S_IFIFO:
		h.Typeflag = tar.TypeFifo
	default:
		h.Typeflag, h.Size = tar.TypeReg, st.Size
	}
	if o, ok := t.unusual[strings.TrimSuffix(name, "/")]; ok {
		h.Uid, h.Gid = o.UID, o.GID
		if o.Mode != nil {
			h.Mode = int64(*o.Mode)
		}
	}
	return h
}

func (t *tarTree) file(above int, base, name string, st *unix.Stat_t) error {
	h := t.header(name, "", st)
	if st.Nlink > 1 {
		key := [2]uint64{st.Dev, st.Ino}
		if first, ok := t.links[key]; ok {
			h.Typeflag, h.Linkname, h.Size = tar.TypeLink, first, 0
			return t.w.WriteHeader(h)
		}
		t.links[key] = name
	}
	f, err := openAny(above, base, name, 0, st)
	if err != nil {
		return err
	}
	defer f.Close()
	if h.PAXRecords, err = xattrs(int(f.Fd())); err != nil {
		return &fs.PathError{Op: "read attributes", Path: name, Err: err}
	}
	if err := t.w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{t.w}, struct{ io.Reader }{io.LimitReader(f, h.Size)}, t.buf)
	return err
}

// xattrs gives the attributes that travel, as tar has them.
func xattrs(fd int) (map[string]string, error) {
	n, err := unix.Flistxattr(fd, nil)
	if n == 0 || errors.Is(err, unix.ENOTSUP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	list := make([]byte, n)
	if n, err = unix.Flistxattr(fd, list); err != nil {
		return nil, err
	}
	var records map[string]string
	value := make([]byte, 64<<10)
	for _, name := range strings.Split(string(list[:n]), "\x00") {
		if !strings.HasPrefix(name, "user.") && name != "security.capability" {
			continue
		}
		n, err := unix.Fgetxattr(fd, name, value)
		if err != nil {
			return nil, err
		}
		if records == nil {
			records = map[string]string{}
		}
		records["SCHILY.xattr."+name] = string(value[:n])
	}
	return records, nil
}

// openAny opens what belongs to us even where its mode forbids us to: such
// files are common (/etc/shadow of some distributions). A file's mode is put
// back at once, a directory's by who opened it; what they should be is known
// from unpack.Unusual meanwhile.
func openAny(above int, base, name string, flags int, st *unix.Stat_t) (*os.File, error) {
	flags |= unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_CLOEXEC | unix.O_NONBLOCK
	fd, err := -1, error(unix.EACCES)
	dir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !dir || st.Mode&0o500 == 0o500 {
		fd, err = unix.Openat(above, base, flags, 0)
	}
	if errors.Is(err, unix.EACCES) {
		if fd, err = forceOpen(above, base, flags); err == nil && !dir {
			err = unix.Fchmod(fd, st.Mode&0o7777)
		}
	}
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}

func forceOpen(above int, base string, flags int) (int, error) {
	at, err := unix.Openat(above, base, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	// fchmod refuses an O_PATH descriptor; its /proc name does not.
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(at), 0o700); err != nil {
		return -1, err
	}
	return unix.Openat(above, base, flags, 0)
}
