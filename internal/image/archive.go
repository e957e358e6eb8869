package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
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
		image, err := s.forDocker(ctx, r)
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
	path := s.path("archives", id) + suffix
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	// Runs that use the tree continue meanwhile: this lock is the file's own.
	lock, err := s.lock(ctx, hexOf(id)+suffix, unix.LOCK_EX)
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
	w, err := s.newWorkplace()
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

// forDocker is the image as engines of others can load it: its own layers
// where the cache has them and every engine knows their compression, else
// flattened.
func (s *Store) forDocker(ctx context.Context, r record) (v1.Image, error) {
	image, err := s.original(r)
	if err != nil {
		return s.flattened(ctx, r)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if t, err := l.MediaType(); err != nil || t == types.OCILayerZStd {
			return s.flattened(ctx, r)
		}
	}
	return image, nil
}

var errFlat = errors.New("the cache has the image flattened only")

// original is the image as it was pulled.
func (s *Store) original(r record) (v1.Image, error) {
	if len(r.Layers) == 0 {
		return nil, errFlat
	}
	for _, l := range r.Layers {
		if _, err := os.Stat(s.path("blobs", l)); err != nil {
			return nil, errFlat
		}
	}
	raw, err := os.ReadFile(s.path("blobs", r.ID))
	if err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(s.path("blobs", manifest.Config.Digest.String()))
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&cached{s, raw, manifest, config})
}

// cached is an image of blobs, as go-containerregistry wants to see it.
type cached struct {
	store         *Store
	raw           []byte
	manifest      *v1.Manifest
	rawConfigFile []byte
}

func (c *cached) RawManifest() ([]byte, error)        { return c.raw, nil }
func (c *cached) RawConfigFile() ([]byte, error)      { return c.rawConfigFile, nil }
func (c *cached) MediaType() (types.MediaType, error) { return mediaType(c.manifest), nil }
func (c *cached) LayerByDigest(h v1.Hash) (partial.CompressedLayer, error) {
	for _, d := range c.manifest.Layers {
		if d.Digest == h {
			return &cachedLayer{c.store, d}, nil
		}
	}
	return nil, fmt.Errorf("the image has no layer %s", h)
}

func mediaType(m *v1.Manifest) types.MediaType {
	if m.MediaType == "" {
		return types.OCIManifestSchema1
	}
	return m.MediaType
}

type cachedLayer struct {
	store *Store
	d     v1.Descriptor
}

func (l *cachedLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *cachedLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *cachedLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *cachedLayer) Compressed() (io.ReadCloser, error) {
	return os.Open(l.store.path("blobs", l.d.Digest.String()))
}

// flattened is the image with its tree as its only layer.
func (s *Store) flattened(ctx context.Context, r record) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		rd, wr := io.Pipe()
		go func() { wr.CloseWithError(s.writeTar(ctx, wr, r.ID)) }()
		return rd, nil
	}, tarball.WithCompressionLevel(1), tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	r.describeAll(file)
	return mutate.ConfigFile(image, file)
}
