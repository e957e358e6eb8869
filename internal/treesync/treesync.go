// Package treesync carries files and directory trees from one host to
// another as a stream of bytes, or copies them on one host. It keeps
// permissions, modification times, symbolic and hard links, holes and user.*
// attributes; what it makes belongs to its receiver, so set-user-id and
// set-group-id bits of files are dropped. A stream that is cut, damaged or
// given up by its sender is an error and leaves the target as it was.
//
// The package knows nothing of hosts, connections or runs: it is given a
// reader or a writer.
package treesync

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// Send writes the file or directory at path to w, symbolic links as links, as
// `cp -a` takes them. progress, if not nil, is given the bytes of content sent
// so far. NotFound where there is nothing at path.
//
// A Write that blocks is not interrupted by ctx: close w for that.
func Send(ctx context.Context, w io.Writer, path string, progress func(done int64)) error {
	return SendOver(ctx, w, path, nil, progress)
}

// SendOver is Send to a receiver who has an earlier copy: what he knows of it
// (ReadKnown, Agree) is named, not sent. He takes it with ReceiveOver.
func SendOver(ctx context.Context, w io.Writer, path string, known *Known, progress func(done int64)) error {
	e := newEncoder(w, kindOne, progress)
	if known != nil {
		if known.total {
			core.BestEffort(e.number(recTotal, uint64(Size(ctx, path)))) // it sticks
		} else if len(known.sums) > 0 {
			e.known = known
		}
		core.BestEffort(e.goOn(path, known))
		defer e.journal.close()
	}
	err := send(ctx, e, filepath.Clean(path), func(k *walker) error { return k.whole(filepath.Clean(path)) })
	if err == nil {
		e.journal.keep()
	}
	return err
}

// Size adds up the bytes of the files below a path, as far as they can be seen and until
// ctx ends.
func Size(ctx context.Context, path string) int64 {
	total := int64(0)
	core.BestEffort(eachBelow(path, func(_ *fsutil.Root, _ string, info fs.FileInfo, err error) error { // it is only to choose sizes by
		if err == nil && info.Mode().IsRegular() {
			total += info.Size()
		}
		return ctx.Err()
	}))
	return total
}

// eachBelow visits a file or directory, and everything in it, by the descriptor of the
// directory above.
func eachBelow(path string, visit func(in *fsutil.Root, name string, info fs.FileInfo, err error) error) error {
	in, err := fsutil.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer in.Close()
	return in.Walk(filepath.Base(path), func(name string, info fs.FileInfo, err error) error { return visit(in, name, info, err) })
}

// SendMany writes several files or directories below root to w. Each of rel
// is a path relative to root; with none, everything in root is sent. Receive
// puts each at the same place below its own path, and leaves what else is
// there alone.
func SendMany(ctx context.Context, w io.Writer, root string, rel []string, progress func(done int64)) error {
	e := newEncoder(w, kindMany, progress)
	return send(ctx, e, filepath.Clean(root), func(k *walker) error { return k.many(filepath.Clean(root), rel) })
}

func send(ctx context.Context, e *encoder, object string, walk func(*walker) error) error {
	err := walk(&walker{ctx: ctx, to: e, inodes: map[inode]uint64{}, same: e.keep})
	if err != nil {
		e.abort(err)
		return fail("send", object, err)
	}
	if err := e.end(); err != nil {
		return fail("send", object, err)
	}
	return nil
}

// Receive makes path the copy of what Send wrote to r, or, for what SendMany
// wrote, puts everything in its place below path. Missing parents are made.
// Each thing replaces what was there in one step, and only once the whole
// stream has arrived and its checksum is right. Receive reads no byte beyond
// the stream's end.
func Receive(ctx context.Context, r io.Reader, path string) error {
	return receive(ctx, r, path, nil, false)
}

// ReceiveOver is Receive of what SendOver sends; basis is what the sender was
// notified of, nil for nothing, which must not change meanwhile. Where the stream
// breaks, what has arrived is kept for the basis of the next time.
func ReceiveOver(ctx context.Context, r io.Reader, path string, basis *Basis) error {
	err := receive(ctx, r, path, basis, true)
	if err == nil {
		err = fsutil.RemoveAll(partial(path))
	}
	return err
}

func receive(ctx context.Context, r io.Reader, path string, basis *Basis, keep bool) error {
	path = filepath.Clean(path)
	defer basis.close()
	t := &tree{ctx: ctx, root: path, links: map[uint64]linkSource{}}
	defer t.close()
	err := decode(ctx, r, t, basis)
	if copied := t.settle(); err == nil {
		err = copied
	}
	if err != nil {
		err = fail("receive", path, err)
		if keep && (core.IsKind(err, core.Lost) || core.IsKind(err, core.Stopped)) && len(t.parts) == 1 {
			t.parts[0].keep(partial(path))
		}
		return err
	}
	t.journal.settle()
	if err := t.commit(); err != nil {
		return fail("receive", path, err)
	}
	t.journal.keep()
	return nil
}

// Copy makes to a copy of from on this host, sharing blocks where the file
// system can. The rules are those of Send and Receive.
func Copy(ctx context.Context, from, to string, progress func(done int64)) error {
	from, to = filepath.Clean(from), filepath.Clean(to)
	if within(to, from) {
		return fail("copy", from, &core.Error{
			Kind: core.Invalid, Err: errors.New("cannot copy a directory into itself"),
			Remedy: "Choose a target that does not lie in " + from + ".",
		})
	}
	t := &tree{ctx: ctx, root: to, links: map[uint64]linkSource{}, progress: progress}
	defer t.close()
	k := &walker{ctx: ctx, to: t, inodes: map[inode]uint64{}}
	if err := k.whole(from); err != nil {
		return fail("copy", from, err)
	}
	if err := t.commit(); err != nil {
		return fail("copy", from, err)
	}
	return nil
}

// CopyMany copies several files or directories below a directory to the same places below
// another, as SendMany and Receive do; what is gone when its turn comes is left out.
func CopyMany(ctx context.Context, root string, rel []string, to string) error {
	root, to = filepath.Clean(root), filepath.Clean(to)
	if len(rel) == 0 {
		return nil
	}
	t := &tree{ctx: ctx, root: to, links: map[uint64]linkSource{}}
	defer t.close()
	k := &walker{ctx: ctx, to: t, inodes: map[inode]uint64{}, fleeting: true}
	if err := k.many(root, rel); err != nil {
		return fail("copy", root, err)
	}
	if err := t.commit(); err != nil {
		return fail("copy", root, err)
	}
	return nil
}

// within reports whether path lies, or would lie, in the directory dir.
func within(path, dir string) bool {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	for up := filepath.Dir(path); ; up = filepath.Dir(up) {
		if real, err := filepath.EvalSymlinks(up); err == nil {
			return real == dir || strings.HasPrefix(real, strings.TrimSuffix(dir, "/")+"/")
		}
		if up == "/" || up == "." {
			return false
		}
	}
}

// errDamaged is the cause where a checksum does not match.
var errDamaged = errors.New("the stream was damaged on its way")

// fail gives err a kind and, where the user can act, a remedy.
func fail(op, object string, err error) error {
	e := &core.Error{Kind: core.KindOf(err), Op: op, Object: object, Err: err}
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		e.Kind = core.Stopped
	case errors.Is(err, errDamaged):
		e.Kind = core.Transient
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrDeadlineExceeded),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		e.Kind = core.Lost
	case errors.Is(err, fs.ErrNotExist):
		e.Kind = core.NotFound
	case fsutil.IsFull(err):
		e.Kind, e.Remedy = core.Transient, "Free some space, or choose another directory."
	case errors.Is(err, fs.ErrPermission):
		e.Remedy = "Check the permissions of the files and of the directories above them."
	}
	return e
}
