// Package image is the cache of images on one machine: it gets them from
// registries, archives and builds, flattens their layers into one tree, and
// hands trees, archives and streams of them out. Many processes share one
// cache. It knows nothing of runs.
//
// Layout of a cache directory:
//
//	blobs/<hex>          layers, manifests and configurations of registries, once;
//	                     layers of Debian packages, by what they were made of
//	partial/<hex>        layers of which a part has come; locked while they come
//	images/<hex>.json    what an image is: core.Image and its blobs
//	images/<hex>.odd     what its tree cannot hold, see unpack.Unusual
//	trees/<hex>/         the flattened image; published by rename, never changed
//	archives/<hex>.tar   the image for other container engines, when asked for;
//	                     <hex>.erofs for virtual machines
//	kept/<hex>/          what users of an image keep with it; removed with it
//	refs/<hash>          the image that a reference meant when last asked
//	locks/<name>         flock: exclusive to make or remove, shared to use
//	tmp/                 what is in the making, locked by who makes it
package image

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"golang.org/x/sys/unix"
)

// Store is a cache of images. It is safe for use by many goroutines and
// processes.
type Store struct {
	// BuildInGuest builds a Dockerfile's image in a virtual machine of this host, and
	// gives the exit code of what does it; nil: none can be had.
	BuildInGuest func(ctx context.Context, b GuestBuild) (code int, err error)

	dir    directory
	refs   references
	log    *slog.Logger
	limits unpack.Limits
}

// record is what images/<hex>.json holds.
type record struct {
	core.Image
	// Layers are the digests of what blobs holds of it: layers, lowest first,
	// manifest and configuration; none where the image came flattened.
	Layers []string `json:"layers,omitempty"`
	// Document is the image's whole configuration, of which core.Image has a part.
	Document json.RawMessage `json:"document,omitempty"`
	Created  time.Time       `json:"created"`
}

// Open opens, and where needed makes, a cache. It costs next to nothing.
func Open(dir string, log *slog.Logger) (*Store, error) {
	err := fsutil.OwnDir(dir)
	for _, d := range []string{"blobs", "partial", "images", "trees", "archives", "refs", "locks", "tmp"} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(dir, d), 0o700)
		}
	}
	if err != nil {
		return nil, &core.Error{
			Kind: core.Permanent, Op: "open image cache", Object: dir, Err: err,
			Remedy: "Choose another directory with --cache or BEE_CACHE, to which and above which nobody else can write.",
		}
	}
	d := directory(dir)
	return &Store{dir: d, refs: references{d}, log: log, limits: unpack.DefaultLimits()}, nil
}

// Dir is the cache's directory.
func (s *Store) Dir() string { return string(s.dir) }

// Has reports whether the image's tree is there, ready for use.
func (s *Store) Has(id string) bool {
	if !validID(id) {
		return false
	}
	var st unix.Stat_t
	return unix.Lstat(s.dir.path("trees", id), &st) == nil
}

func (s *Store) read(id string) (record, error) {
	var r record
	if !validID(id) {
		return r, notHere(id)
	}
	raw, err := os.ReadFile(s.dir.path("images", id) + ".json")
	if errors.Is(err, fs.ErrNotExist) {
		return r, notHere(id)
	}
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}

func notHere(what string) error {
	return &core.Error{
		Kind: core.NotFound, Op: "find image", Object: what, Err: errors.New("it is not in the cache"),
		Remedy: "`bee image ls` lists what is; `bee image pull` brings it.",
	}
}

// Tree gives the image's unpacked root file system, which stays until release
// is called or this process ends.
func (s *Store) Tree(ctx context.Context, id string) (string, func(), error) {
	if !s.Has(id) {
		return "", nil, notHere(id)
	}
	f, err := s.dir.lock(ctx, hexOf(id), unix.LOCK_SH)
	if err != nil {
		return "", nil, err
	}
	if !s.Has(id) { // removed meanwhile
		f.Close()
		return "", nil, notHere(id)
	}
	return s.dir.path("trees", id), func() { f.Close() }, nil
}

// Kept names the directory, there or not, of what users of an image keep with
// it: it is removed when the image is.
func (s *Store) Kept(id string) string { return s.dir.path("kept", id) }
