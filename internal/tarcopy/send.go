// Package tarcopy copies files and directories as a tar stream, by the rules of `docker cp`.
// It knows no run and no connection: it is given a reader or a writer. Neither end trusts
// the other one, nor a tree that others fill: what is received stays below its target.
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
)

// Name returns the name under which a source arrives in a directory: "." for its content
// only, as in "dir/.".
func Name(source string) string {
	if source == "." || strings.HasSuffix(source, "/.") {
		return "."
	}
	return filepath.Base(source)
}

// Send writes the file or directory at a path, which is followed where it is a link. Links
// below are sent as links, and special files are left out. progress, if not nil, is given
// the bytes of content so far. NotFound where there is nothing.
func Send(ctx context.Context, w io.Writer, source string, progress func(done int64)) error {
	real, err := filepath.EvalSymlinks(source)
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return failed("read", source, err)
	}
	root, err := fsutil.OpenRoot(filepath.Dir(real))
	if err != nil {
		return failed("read", source, err)
	}
	defer root.Close()
	base := filepath.Base(real)
	if base == "/" {
		base = "."
	}
	s := sender{ctx: ctx, to: tar.NewWriter(w), root: root, progress: progress}
	err = root.Walk(base, func(name string, info fs.FileInfo, err error) error {
		if err != nil {
			return err
		}
		below := name
		if base != "." {
			below = strings.TrimPrefix(strings.TrimPrefix(name, base), "/")
		}
		return s.entry(name, path.Join(Name(source), below), info)
	})
	if err == nil {
		err = s.to.Close()
	}
	return failed("copy", source, err)
}

type sender struct {
	ctx      context.Context // the copy's, as long as it lasts
	to       *tar.Writer
	root     *fsutil.Root
	done     int64
	progress func(int64)
}

func (s *sender) entry(name, as string, info fs.FileInfo) error {
	if err := context.Cause(s.ctx); err != nil {
		return err
	}
	h := &tar.Header{Name: as, Mode: int64(info.Mode().Perm()), ModTime: info.ModTime(), Format: tar.FormatPAX}
	switch {
	case info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, as+"/"
		return s.to.WriteHeader(h)
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := s.root.Readlink(name)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		return s.to.WriteHeader(h)
	case info.Mode().IsRegular():
		return s.file(name, h)
	}
	return nil
}

func (s *sender) file(name string, h *tar.Header) error {
	f, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Size = tar.TypeReg, info.Size()
	if err := s.to.WriteHeader(h); err != nil {
		return err
	}
	// It may grow meanwhile.
	n, err := io.Copy(s.to, io.LimitReader(&counted{s.ctx, f, &s.done, s.progress}, info.Size()))
	if err == nil && n < info.Size() {
		err = &core.Error{Kind: core.Transient, Op: "copy", Object: name, Err: fmt.Errorf("it became shorter meanwhile, from %d to %d bytes", info.Size(), n), Remedy: "Copy it when nobody writes to it."}
	}
	return err
}

// counted is a reader whose bytes are counted.
type counted struct {
	ctx      context.Context // the copy's, as long as it lasts
	from     io.Reader
	done     *int64
	progress func(int64)
}

func (c *counted) Read(b []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.from.Read(b)
	if *c.done += int64(n); c.progress != nil && n > 0 {
		c.progress(*c.done)
	}
	return n, err
}

// failed is an error with its kind.
func failed(op, object string, err error) error {
	if err == nil {
		return nil
	}
	if e, is := errors.AsType[*core.Error](err); is {
		return e
	}
	kind, remedy := core.Permanent, ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind, remedy = core.NotFound, "Look whether its name is right."
	case errors.Is(err, fs.ErrPermission):
		kind, remedy = core.Invalid, "Look at its permissions."
	}
	return &core.Error{Kind: kind, Op: op, Object: object, Err: err, Remedy: remedy}
}
