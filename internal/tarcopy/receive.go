package tarcopy

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Target is where a copy goes.
type Target struct {
	// Path is followed where it is a link. With a slash at its end it is a directory.
	Path string
	// Name is that of the source, as Name returns it. Empty: the stream is someone's own
	// archive, and all of it goes below Path, which is a directory.
	Name string
}

// Receive makes what a stream of Send has, or an archive. A file that is there is replaced,
// directories are merged. Links that lead out of what is copied are left out, and are an
// error at the end. Special files of archives are an error.
func Receive(ctx context.Context, r io.Reader, t Target, progress func(done int64)) error {
	in := &receiver{ctx: ctx, from: tar.NewReader(r), target: t, progress: progress}
	defer func() {
		if in.tree != nil {
			in.tree.Close()
		}
	}()
	for {
		h, err := in.from.Next()
		if err == io.EOF { //nolint:errorlint // Next gives it bare
			break
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err == nil {
			err = in.entry(h)
		}
		if err != nil {
			return failed("copy to", t.Path, err)
		}
	}
	if in.tree == nil {
		return &core.Error{Kind: core.Invalid, Op: "copy to", Object: t.Path, Err: errors.New("the stream is empty"), Remedy: "Give an archive on standard input."}
	}
	for _, d := range in.closed { // those before are above
		if err := in.tree.Chmod(d.name, d.mode); err != nil {
			return failed("copy to", t.Path, err)
		}
	}
	if n := len(in.refused); n > 0 {
		return &core.Error{
			Kind: core.Invalid, Op: "copy to", Object: t.Path, Err: fmt.Errorf("links that lead out of what is copied were left out: %s", strings.Join(in.refused, ", ")),
			Remedy: "All else is copied. Copy what they lead to by its own name.",
		}
	}
	return nil
}

type receiver struct {
	ctx      context.Context // the copy's, as long as it lasts
	from     *tar.Reader
	target   Target
	tree     *fsutil.Root // what is copied; nil until the first entry
	root     string       // the name in the stream of the tree itself
	single   string       // in the tree, of a file that is copied alone
	closed   []closedDir
	refused  []string
	done     int64
	progress func(int64)
}

// closedDir is a directory whose mode keeps its owner out.
type closedDir struct {
	name string
	mode fs.FileMode
}

// mostRefused bounds the names in an error.
const mostRefused = 5

func (in *receiver) entry(h *tar.Header) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return invalid("%q is no name in an archive", h.Name)
	}
	first := in.tree == nil
	if first {
		if err := in.begin(name, h); err != nil {
			return err
		}
	}
	if in.single != "" {
		if !first {
			return invalid("something follows the file %q", in.single)
		}
		return in.file(in.single, h)
	}
	if in.root != "." {
		below, is := strings.CutPrefix(name+"/", in.root+"/")
		if !is {
			return invalid("%q is not below %q", h.Name, in.root)
		}
		name = path.Clean(below)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return in.dir(name, h)
	case tar.TypeReg:
		return in.file(name, h)
	case tar.TypeSymlink:
		return in.link(name, h)
	case tar.TypeXGlobalHeader:
		return nil
	}
	return invalid("%q is neither a file, a directory nor a link", h.Name)
}

func invalid(format string, args ...any) error {
	return &core.Error{Kind: core.Invalid, Op: "read archive", Err: fmt.Errorf(format, args...), Remedy: "Copy files, directories and links alone; `tar -t` lists an archive."}
}

// begin opens the tree, by the rules of `docker cp`.
func (in *receiver) begin(name string, h *tar.Header) (err error) {
	to, t := strings.TrimRight(in.target.Path, "/"), in.target
	if to == "" {
		to = "/"
	}
	at, err := fsutil.OpenRoot(to)
	isDir := err == nil
	absent := errors.Is(err, fs.ErrNotExist)
	isFile := errors.Is(err, unix.ENOTDIR) && !strings.HasSuffix(t.Path, "/")
	switch {
	case !isDir && !absent && !isFile:
		return err
	case t.Name == "" && !isDir, h.Typeflag != tar.TypeDir && absent && strings.HasSuffix(t.Path, "/"):
		return &core.Error{Kind: core.NotFound, Op: "copy to", Object: t.Path, Err: errors.New("there is no such directory"), Remedy: "Make it first."}
	case t.Name == "":
		in.tree, in.root = at, "."
		return nil
	case h.Typeflag == tar.TypeDir && isFile:
		return &core.Error{Kind: core.Invalid, Op: "copy to", Object: t.Path, Err: errors.New("the source is a directory, and this is a file"), Remedy: "Name a directory."}
	case h.Typeflag == tar.TypeDir:
		in.root = name
		if isDir && t.Name == "." {
			in.tree = at
			return nil
		}
		return in.beginDir(at, to)
	case h.Typeflag != tar.TypeReg:
		return invalid("%q is neither a file nor a directory", h.Name)
	}
	in.tree, in.single = at, t.Name
	if !isDir {
		in.single = filepath.Base(to)
		in.tree, err = fsutil.OpenRoot(filepath.Dir(to))
	}
	return err
}

// beginDir makes the directory that is copied: below one that is there, else the target.
func (in *receiver) beginDir(at *fsutil.Root, to string) (err error) {
	name := in.target.Name
	if at == nil {
		if at, err = fsutil.OpenRoot(filepath.Dir(to)); err != nil {
			return err
		}
		name = filepath.Base(to)
	}
	defer at.Close()
	if err := at.Mkdir(name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	in.tree, err = at.Sub(name)
	return err
}

func (in *receiver) dir(name string, h *tar.Header) error {
	if err := in.tree.MkdirAll(name, 0o777); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	if mode&0o700 != 0o700 {
		in.closed = append([]closedDir{{name, mode}}, in.closed...)
		mode |= 0o700
	}
	if name == "." {
		return nil
	}
	return in.tree.Chmod(name, mode)
}

func (in *receiver) file(name string, h *tar.Header) error {
	if name == "." {
		return invalid("a file has no name")
	}
	if err := in.tree.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	base := path.Base(name)
	temp := path.Join(path.Dir(name), "."+base[:min(len(base), unix.NAME_MAX-20)]+".bee-cp")
	if err := in.tree.RemoveAll(temp); err != nil {
		return err
	}
	f, err := in.tree.Create(temp, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, &counted{in.ctx, in.from, &in.done, in.progress})
	if err == nil {
		err = f.Chmod(fs.FileMode(h.Mode).Perm())
	}
	if err == nil {
		at := unix.NsecToTimeval(h.ModTime.UnixNano())
		err = unix.Futimes(int(f.Fd()), []unix.Timeval{at, at})
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = in.tree.Rename(temp, in.tree, name)
	}
	if err != nil {
		return errors.Join(err, in.tree.RemoveAll(temp))
	}
	return nil
}

func (in *receiver) link(name string, h *tar.Header) error {
	if name == "." || leadsOut(name, h.Linkname) {
		if len(in.refused) < mostRefused {
			in.refused = append(in.refused, fmt.Sprintf("%q → %q", name, h.Linkname))
		}
		return nil
	}
	if err := in.tree.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	info, err := in.tree.Lstat(name)
	if err == nil && !info.IsDir() {
		err = in.tree.RemoveAll(name)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return err
	}
	return in.tree.Symlink(h.Linkname, name)
}

// leadsOut reports whether a link may lead out of its tree. No element of its name is a link.
// Elements ".." behind others are refused, as those may be links.
func leadsOut(name, target string) bool {
	if target == "" || path.IsAbs(target) {
		return true
	}
	above, down := 0, false
	for element := range strings.SplitSeq(target, "/") {
		switch element {
		case "", ".":
		case "..":
			if above++; down {
				return true
			}
		default:
			down = true
		}
	}
	return above > strings.Count(name, "/")
}
