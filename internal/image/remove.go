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
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Remover removes images of a cache, and what no image of it has.
type Remover struct {
	Cache *Store
	// Needed are runs that continue with an image, by its id, at some time: it is not removed.
	Needed map[string]string
}

// Remove removes an image that nobody uses or needs, and the layers that only it had.
func (r Remover) Remove(id string) error {
	i, err := r.Cache.read(id)
	if err != nil {
		return err
	}
	if run, ok := r.Needed[i.ID]; ok {
		return &core.Error{
			Kind: core.Busy, Op: "remove image", Object: id, Err: errors.New("run " + run + " continues with it"),
			Remedy: "`bee show " + run + "` tells where it is, `bee stop " + run + "` ends it.",
		}
	}
	f, err := os.OpenFile(r.Cache.dir.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX); err != nil {
		return &core.Error{Kind: core.Busy, Op: "remove image", Object: id, Err: errors.New("a run uses it"), Remedy: "`bee ps` lists the runs."}
	}
	return r.drop(hexOf(id), i.Layers)
}

// drop removes all that belongs to an image, and the layers that only it had. Callers
// have it locked.
func (r Remover) drop(id string, layers []string) error {
	w, err := r.Cache.dir.newWorkplace()
	if err != nil {
		return err
	}
	defer w.end()
	// First away under another name, then removed: a tree is whole or not there.
	errs := []error{gone(os.Rename(r.Cache.dir.path("trees", id), w.path(treeName))), os.RemoveAll(r.Cache.Kept(id))}
	if errors.Is(errs[0], fs.ErrPermission) { // its root may be unwritable
		errs[0] = errors.Join(os.Chmod(r.Cache.dir.path("trees", id), 0o700), os.Rename(r.Cache.dir.path("trees", id), w.path(treeName)))
	}
	for _, file := range []string{r.Cache.dir.path("images", id) + ".json", r.Cache.dir.path("images", id) + ".odd", r.Cache.dir.path("archives", id) + archiveSuffix, r.Cache.dir.path("archives", id) + fileSystemSuffix} {
		errs = append(errs, gone(os.Remove(file)))
	}
	return errors.Join(append(errs, r.Cache.refs.drop("sha256:"+id), r.dropBlobs(layers))...)
}

// gone makes a success of what is not there.
func gone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropBlobs removes blobs that no image lists any more.
func (r Remover) dropBlobs(digests []string) error {
	used, err := r.usedBlobs()
	if err != nil {
		return err
	}
	var errs []error
	for _, d := range digests {
		if !used[hexOf(d)] {
			errs = append(errs, gone(os.Remove(r.Cache.dir.path("blobs", d))))
		}
	}
	return errors.Join(errs...)
}

func (r Remover) usedBlobs() (map[string]bool, error) {
	entries, err := os.ReadDir(r.Cache.dir.folder("images"))
	if err != nil {
		return nil, err
	}
	used := map[string]bool{}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), ".json")
		if i, err := r.Cache.read(id); ok && err == nil {
			for _, l := range i.Layers {
				used[hexOf(l)] = true
			}
		}
	}
	return used, nil
}

// Prune removes every image that nobody uses or needs, layers that no image has any
// more or that came only in part, and what processes that died have left. It
// gives the images removed.
func (r Remover) Prune(ctx context.Context) ([]core.Image, error) {
	all, err := r.Cache.List()
	if err != nil {
		return nil, err
	}
	var removed []core.Image
	var errs []error
	for _, i := range all {
		if ctx.Err() != nil {
			return removed, context.Cause(ctx)
		}
		err := r.Remove(i.ID)
		switch {
		case err == nil:
			removed = append(removed, i)
		case !core.IsKind(err, core.Busy):
			errs = append(errs, err)
		}
	}
	return removed, errors.Join(append(errs, r.dropHalves(), r.pruneBlobs(), r.Cache.dir.sweep())...)
}

// soonWhole is how old the record of an image is that has its tree, or never will.
const soonWhole = time.Hour

// dropHalves removes what there is of images that have no tree: who made or removed them
// was killed.
func (r Remover) dropHalves() error {
	var errs []error
	for _, kind := range []string{"images", "archives", "kept"} {
		entries, err := os.ReadDir(r.Cache.dir.folder(kind))
		errs = append(errs, gone(err))
		for _, e := range entries {
			id, _, _ := strings.Cut(e.Name(), ".")
			if info, err := e.Info(); err != nil || !validID(id) || r.Cache.Has(id) || time.Since(info.ModTime()) < soonWhole {
				continue
			}
			errs = append(errs, r.dropHalf(id))
		}
	}
	return errors.Join(errs...)
}

func (r Remover) dropHalf(id string) error {
	i, _ := r.Cache.read(id) // there may be none any more
	f, err := os.OpenFile(r.Cache.dir.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX) != nil || r.Cache.Has(id) {
		return nil
	}
	return r.drop(id, i.Layers)
}

func (r Remover) pruneBlobs() error {
	used, err := r.usedBlobs()
	if err != nil {
		return err
	}
	var errs []error
	for _, kind := range []string{"blobs", "partial"} {
		entries, err := os.ReadDir(r.Cache.dir.folder(kind))
		errs = append(errs, err)
		for _, e := range entries {
			file := filepath.Join(r.Cache.dir.folder(kind), e.Name())
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
