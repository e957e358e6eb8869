package node

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/node/spread"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// HaveImage sees to it that this host's cache has the image, and the children
// in the tree can get it.
func (n *node) HaveImage(ctx context.Context, what string, image core.Image, cacheToken string) error {
	export := func(ctx context.Context, w io.Writer) error { return n.images.ExportFlat(ctx, image.ID, w) }
	if n.images.Has(image.ID) {
		n.spreads.Offer(what, export)
		return nil
	}
	if n.config.Rank == 0 {
		return n.importStaged(ctx, what, image)
	}
	if n.sees(n.config.Host.Cache, cacheToken) {
		// The cache is the head's own: it is unpacked there once for all.
		if _, err := rpc.Call(ctx, n.pool.headConn(), peercall.CallAwaitImage, spread.Thing{What: what}); err != nil {
			return err
		}
		n.spreads.Offer(what, export)
		return nil
	}
	return n.spreads.Take(ctx, what, func(r io.Reader) error { return n.images.ImportFlat(ctx, r) })
}

// importStaged imports the image that the controller put into the run's
// directory. The children get it directly from the file.
func (n *node) importStaged(ctx context.Context, what string, image core.Image) error {
	path := plan.ArchivePath(n.config.Host.Dir)
	if what == spread.Guest {
		path = plan.GuestPath(n.config.Host.Dir)
	}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return &core.Error{
			Kind: core.NotFound, Op: "find image", Object: image.Ref,
			Err: errors.New("neither the cache of the head's host nor the run's directory holds it"), Remedy: "Run the job again; it will be sent again.",
		}
	}
	if err != nil {
		return err
	}
	if n.config.Size > 1 {
		again, err := os.Open(f.Name())
		if err != nil {
			f.Close()
			return err
		}
		if err := n.spreads.PassFile(what, again); err != nil {
			f.Close()
			return err
		}
	}
	defer f.Close()
	if err := n.images.ImportFlat(ctx, f); err != nil {
		return err
	}
	return os.Remove(f.Name())
}

// tokenPath is where the head marks its image cache while an attempt starts.
func tokenPath(cache, token string) string { return filepath.Join(cache, "tmp", "seen-"+token) }

// MarkCache lets the other nodes find out whether they use the same cache.
func (n *node) MarkCache() (token string, unmark func()) {
	token = newToken()
	path := tokenPath(n.config.Host.Cache, token)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return "", func() {} // then each manages itself, which only costs time
	}
	return token, func() { fsutil.TryRemove(path) } // it lies among temporary files
}

func (n *node) sees(cache, token string) bool {
	if token == "" || filepath.Base(token) != token {
		return false
	}
	_, err := os.Stat(tokenPath(cache, token))
	return err == nil
}
