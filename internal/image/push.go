package image

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// Push sends an image to a registry, as one layer: the cache keeps images
// flattened.
func (s *Store) Push(ctx context.Context, id, ref string, report func(string, int64, int64)) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	target, err := name.ParseReference(ref)
	if err != nil {
		return &core.Error{Kind: core.Invalid, Op: "read image reference", Object: ref, Err: err}
	}
	_, release, err := s.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	image, err := s.oneLayer(r)
	if err != nil {
		return err
	}
	updates := make(chan v1.Update, 16)
	go func() {
		for u := range updates {
			report("pushing", u.Complete, u.Total)
		}
	}()
	err = remote.Write(target, image, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithProgress(updates))
	if err != nil {
		return pullError(ref, err)
	}
	return nil
}

// staleAfter is when something in tmp is no more in the making.
const staleAfter = 24 * time.Hour

// Prune removes every image that nobody uses, and what processes that died
// have left in the making. It gives the images removed.
func (s *Store) Prune(ctx context.Context) ([]core.Image, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var (
		gone []core.Image
		errs []error
	)
	for _, i := range all {
		if ctx.Err() != nil {
			return gone, context.Cause(ctx)
		}
		err := s.Remove(i.ID)
		switch {
		case err == nil:
			gone = append(gone, i)
		case !core.IsKind(err, core.Busy):
			errs = append(errs, err)
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, "tmp"))
	errs = append(errs, err)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > staleAfter {
			errs = append(errs, filestream.RemoveAll(filepath.Join(s.dir, "tmp", e.Name())))
		}
	}
	return gone, errors.Join(errs...)
}
