package image

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"
)

// Archive gives a docker-archive of the image, for runtimes that load one, and
// the tag in it. It is made when first asked for, and kept.
func (s *Store) Archive(ctx context.Context, id string) (path, tag string, err error) {
	r, err := s.read(id)
	if err != nil {
		return "", "", err
	}
	parsed, err := name.NewTag(tagOf(id))
	if err != nil {
		return "", "", err
	}
	path, err = s.derived(ctx, id, archiveSuffix, func(to string) error {
		image, err := content{s.dir, r}.forDocker(ctx)
		if err != nil {
			return err
		}
		return tarball.WriteToFile(to, parsed, image)
	})
	return path, tagOf(id), err
}

// Suffixes of what is made of an image when it is first asked for, and kept.
const (
	archiveSuffix    = ".tar"
	fileSystemSuffix = ".erofs"
)

// tagOf is an image's name among container engines.
func tagOf(id string) string { return "bee.local/image:" + hexOf(id)[:16] }

// derived gives a file that is made of an image's tree, once.
func (s *Store) derived(ctx context.Context, id, suffix string, make func(to string) error) (string, error) {
	path := s.dir.path("archives", id) + suffix
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// Runs that use the tree continue meanwhile: this lock is the file's own.
	lock, err := s.dir.lock(ctx, hexOf(id)+suffix, unix.LOCK_EX)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	_, release, err := s.Tree(ctx, id)
	if err != nil {
		return "", err
	}
	defer release()
	w, err := s.dir.newWorkplace()
	if err != nil {
		return "", err
	}
	defer w.end()
	if err := make(w.path("derived")); err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	f, err := os.Open(w.path("derived"))
	if err != nil {
		return "", err
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return "", fmt.Errorf("make %s: %w", path, err)
	}
	return path, os.Rename(w.path("derived"), path)
}
