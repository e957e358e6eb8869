package image

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sys/unix"
)

// Remove removes an image that nobody uses or needs, and the layers that only it had.
func (s *Store) Remove(id string) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	if run, ok := s.Needed[r.ID]; ok {
		return &core.Error{
			Kind: core.Busy, Op: "remove image", Object: id, Err: errors.New("run " + run + " continues with it"),
			Remedy: "`bee show " + run + "` tells where it is, `bee stop " + run + "` ends it.",
		}
	}
	f, err := os.OpenFile(s.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &core.Error{Kind: core.Busy, Op: "remove image", Object: id, Err: errors.New("a run uses it"), Remedy: "`bee ps` lists the runs."}
	}
	return s.drop(hexOf(id), r.Layers)
}

// drop removes all that belongs to an image, and the layers that only it had. Callers
// have it locked.
func (s *Store) drop(id string, layers []string) error {
	w, err := s.newWorkplace()
	if err != nil {
		return err
	}
	defer w.end()
	// First away under another name, then removed: a tree is whole or not there.
	errs := []error{gone(os.Rename(s.path("trees", id), w.path(treeName))), os.RemoveAll(s.Kept(id))}
	if errors.Is(errs[0], fs.ErrPermission) { // its root may be unwritable
		errs[0] = errors.Join(os.Chmod(s.path("trees", id), 0o700), os.Rename(s.path("trees", id), w.path(treeName)))
	}
	for _, file := range []string{s.path("images", id) + ".json", s.path("images", id) + ".odd", s.path("archives", id) + archiveSuffix, s.path("archives", id) + fileSystemSuffix} {
		errs = append(errs, gone(os.Remove(file)))
	}
	return errors.Join(append(errs, s.dropRefs("sha256:"+id), s.dropBlobs(layers))...)
}

// gone makes a success of what is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropBlobs removes blobs that no image lists any more.
func (s *Store) dropBlobs(digests []string) error {
	used, err := s.usedBlobs()
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range digests {
		if !used[hexOf(d)] {
			errs = append(errs, gone(os.Remove(s.path("blobs", d))))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) usedBlobs() (map[string]bool, error) {
	entries, err := os.ReadDir(filepath.Join(s.dir, "images"))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if r, err := s.read(id); ok && err == nil {
			for _, l := range r.Layers {
				used[hexOf(l)] = true
			}
		}
	}
	return used, nil
}

// Prune removes every image that nobody uses or needs, layers that no image has any
// more or that came only in part, and what processes that died have left. It
// gives the images removed.
func (s *Store) Prune(ctx context.Context) ([]core.Image, error) {
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	var removed []core.Image
	var errs []error
	for _, i := range all {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		err := s.Remove(i.ID)
		switch {
		case err == nil:
			removed = append(removed, i)
		case !core.IsKind(err, core.Busy):
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(append(errs, s.dropHalves(), s.pruneBlobs(), s.Sweep())...)
}

// soonWhole is how old the record of an image is that has its tree, or never will.
const soonWhole = time.Hour

// dropHalves removes what there is of images that have no tree: who made or removed them
// was killed.
func (s *Store) dropHalves() error {
	var errs []error
	for _, kind := range []string{"images", "archives", "kept"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, kind))
		errs = append(errs, gone(err))
		for _, e := range entries {
			id, _, _ := strings.Cut(e.Name(), ".")
			if info, err := e.Info(); err != nil || !validID(id) || s.Has(id) || time.Since(info.ModTime()) < soonWhole {
				continue
			}
			errs = append(errs, s.dropHalf(id))
		}
	}
	return errors.Join(errs...)
}

func (s *Store) dropHalf(id string) error {
	r, _ := s.read(id) // there may be none any more
	f, err := os.OpenFile(s.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil || s.Has(id) {
		return nil
	}
	return s.drop(id, r.Layers)
}

func (s *Store) pruneBlobs() error {
	used, err := s.usedBlobs()
	if err != nil {
		return err
	}
	var errs []error
	for _, kind := range []string{"blobs", "partial"} {
		entries, err := os.ReadDir(filepath.Join(s.dir, kind))
		errs = append(errs, err)
		for _, e := range entries {
			file := filepath.Join(s.dir, kind, e.Name())
			if kind == "blobs" && used[e.Name()] {
				continue
			}
			f, err := lockLeft(file) // a pull has its blobs locked
			errs = append(errs, err)
			if f != nil {
				errs = append(errs, gone(os.Remove(file)), f.Close())
			}
		}
	}
	return errors.Join(errs...)
}
