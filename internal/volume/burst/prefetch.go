package burst

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/generation"
	"github.com/bee-hpc/bee/internal/volume/burst/meta"
)

// Prefetch copies files that patterns match, with all that is in directories that match, from the remote into
// the buffer, before a program reads them. Files for which there is no room are counted as left.
func (v *Volume) Prefetch(ctx context.Context, globs []string) (p calls.Prefetched, err error) {
	err = v.prefetchBelow(ctx, meta.Root, ".", globs, &p)
	return p, err
}

func (v *Volume) prefetchBelow(ctx context.Context, dir uint64, at string, globs []string, p *calls.Prefetched) error {
	list, err := v.names.List(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		name := path.Join(at, e.Name)
		switch e.Attr.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			if generation.MayContain(globs, name) {
				err = v.prefetchBelow(ctx, e.Attr.Ino, name, globs, p)
			}
		case syscall.S_IFREG:
			if generation.Matches(globs, name) {
				err = v.prefetchFile(ctx, e.Attr.Ino, p)
			}
		}
		if err != nil && ctx.Err() != nil {
			return err
		}
		if err != nil && !gone(err) {
			v.o.Log.Warn("fetch ahead", "file", name, "err", err)
			p.Left++
		}
	}
	return nil
}

// gone reports whether an error is about something that was removed meanwhile.
func gone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, errStale) }

func (v *Volume) prefetchFile(ctx context.Context, ino uint64, p *calls.Prefetched) error {
	v.journal.mu.Lock()
	n := v.journal.state.Node(ino)
	if n == nil || n.Local {
		v.journal.mu.Unlock()
		return nil
	}
	size := n.Size
	v.journal.mu.Unlock()
	if v.journal.log.Size()+size > v.room.share(slowed) {
		p.Left++
		return nil
	}
	if err := v.fetch(ctx, ino, 0); err != nil {
		return err
	}
	p.Files, p.Bytes = p.Files+1, p.Bytes+size
	return nil
}
