// Package image is the cache of images on one machine: it gets them from
// registries, archives and builds, flattens their layers into one tree, and
// hands trees, archives and streams of them out. Many processes share one
// cache. It knows nothing of runs.
//
// Layout of a cache directory:
//
//	blobs/<hex>          layers as they came, each stored once
//	images/<hex>.json    what an image is: core.Image and its layers
//	trees/<hex>/         the flattened image; published by rename, never changed
//	refs/<name>          the image that a reference meant when last asked
//	locks/<hex>          flock: exclusive to make or remove, shared to use
//	tmp/                 what is in the making
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// Store is a cache of images. It is safe for use by many goroutines and
// processes.
type Store struct {
	dir string
	log *slog.Logger
}

// record is what images/<hex>.json holds.
type record struct {
	core.Image
	// Layers are the digests of the layers in blobs, lowest first; none where
	// the image came flattened from another host.
	Layers  []string  `json:"layers,omitempty"`
	Created time.Time `json:"created"`
}

// Open opens, and where needed makes, a cache. It costs next to nothing.
func Open(dir string, log *slog.Logger) (*Store, error) {
	for _, d := range []string{"blobs", "images", "trees", "refs", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			return nil, &core.Error{Kind: core.Permanent, Op: "open image cache", Object: dir, Err: err,
				Remedy: "Choose another directory with --cache or BEE_CACHE."}
		}
	}
	return &Store{dir: dir, log: log}, nil
}

// Dir is the cache's directory.
func (s *Store) Dir() string { return s.dir }

func hexOf(id string) string { return strings.TrimPrefix(id, "sha256:") }

func (s *Store) path(kind, id string) string { return filepath.Join(s.dir, kind, hexOf(id)) }

func validID(id string) bool {
	raw, err := hex.DecodeString(hexOf(id))
	return err == nil && len(raw) == sha256.Size
}

// Has tells whether the image's tree is there, ready for use.
func (s *Store) Has(id string) bool {
	if !validID(id) {
		return false
	}
	_, err := os.Stat(s.path("trees", id))
	return err == nil
}

func (s *Store) read(id string) (record, error) {
	var r record
	if !validID(id) {
		return r, notHere(id)
	}
	raw, err := os.ReadFile(s.path("images", id) + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return r, notHere(id)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

func notHere(what string) error {
	return &core.Error{Kind: core.NotFound, Op: "find image", Object: what, Err: errors.New("it is not in the cache"),
		Remedy: "`bee image ls` lists what is; `bee image pull` brings it."}
}

func (s *Store) write(r record) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return renameio.WriteFile(s.path("images", r.ID)+".json", raw, 0o600)
}

// refFile names the file of a reference for a platform.
func (s *Store) refFile(ref, platform string) string {
	sum := sha256.Sum256([]byte(ref + "\x00" + platform))
	return filepath.Join(s.dir, "refs", hex.EncodeToString(sum[:16]))
}

func (s *Store) setRef(ref, platform, id string) error {
	return renameio.WriteFile(s.refFile(ref, platform), []byte(id+"\n"+ref+"\n"+platform+"\n"), 0o600)
}

// ref gives the image that a reference meant when last asked.
func (s *Store) ref(ref, platform string) (core.Image, bool) {
	raw, err := os.ReadFile(s.refFile(ref, platform))
	if err != nil {
		return core.Image{}, false
	}
	id, _, _ := strings.Cut(string(raw), "\n")
	r, err := s.read(id)
	if err != nil || !s.Has(id) {
		return core.Image{}, false
	}
	r.Ref = ref
	return r.Image, true
}

// Get gives an image by id, by unique beginning of one, or by reference.
func (s *Store) Get(word string) (core.Image, error) {
	if r, err := s.read(word); err == nil {
		return r.Image, nil
	}
	all, err := s.List()
	if err != nil {
		return core.Image{}, err
	}
	var found []core.Image
	for _, i := range all {
		if i.Ref == word || len(word) >= 4 && strings.HasPrefix(hexOf(i.ID), hexOf(word)) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return core.Image{}, notHere(word)
	case 1:
		return found[0], nil
	}
	return core.Image{}, &core.Error{Kind: core.Invalid, Op: "find image", Object: word, Err: errors.New("several images are called so"), Remedy: "Give more letters of the id."}
}

// List gives all images, by reference.
func (s *Store) List() ([]core.Image, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, "images", "*.json"))
	if err != nil {
		return nil, err
	}
	var list []core.Image
	for _, f := range files {
		r, err := s.read(strings.TrimSuffix(filepath.Base(f), ".json"))
		if err == nil {
			list = append(list, r.Image)
		}
	}
	sort.Slice(list, func(i, j int) bool { return list[i].Ref < list[j].Ref })
	return list, nil
}

// lock takes an image's lock: exclusive to make or remove it, shared to use it.
func (s *Store) lock(ctx context.Context, id string, how int) (*os.File, error) {
	f, err := os.OpenFile(s.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 200*time.Millisecond) {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, fmt.Errorf("lock image: %w", err)
		}
		select { // another process makes it: wait, but not beyond our own end
		case <-time.After(pause):
		case <-ctx.Done():
			f.Close()
			return nil, context.Cause(ctx)
		}
	}
}

// Tree gives the image's unpacked root file system, which stays until release
// is called or this process ends.
func (s *Store) Tree(ctx context.Context, id string) (string, func(), error) {
	f, err := s.lock(ctx, id, unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	if !s.Has(id) {
		f.Close()
		return "", nil, notHere(id)
	}
	return s.path("trees", id), func() { f.Close() }, nil
}

// Remove removes an image that nobody uses, and the layers that only it had.
func (s *Store) Remove(id string) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(s.path("locks", id), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return &core.Error{Kind: core.Busy, Op: "remove image", Object: id, Err: errors.New("a run uses it"), Remedy: "`bee ps` lists the runs."}
	}
	if err := os.Remove(s.path("images", id) + ".json"); err != nil {
		return err
	}
	// First away under another name, then removed: a tree is whole or not there.
	gone := filepath.Join(s.dir, "tmp", "removed-"+hexOf(id))
	if err := os.Rename(s.path("trees", id), gone); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := filestream.RemoveAll(gone); err != nil {
		return err
	}
	return s.dropBlobs(r.Layers)
}

// dropBlobs removes layers that no image lists any more.
func (s *Store) dropBlobs(layers []string) error {
	files, err := filepath.Glob(filepath.Join(s.dir, "images", "*.json"))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, f := range files {
		if r, err := s.read(strings.TrimSuffix(filepath.Base(f), ".json")); err == nil {
			for _, l := range r.Layers {
				used[l] = true
			}
		}
	}
	for _, l := range layers {
		if !used[l] {
			if err := os.Remove(s.path("blobs", l)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}
