package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// content is what a cache has of one image, as other programs read images: by its own
// layers, or by its tree. Callers keep the tree from being removed.
type content struct {
	dir    directory
	record record
}

// forDocker is the image as engines of others can load it: its own layers
// where the cache has them and every engine knows their compression, else
// flattened.
func (c content) forDocker(ctx context.Context) (v1.Image, error) {
	image, err := c.original()
	if err != nil {
		return c.flattened(ctx)
	}
	layers, err := image.Layers()
	if err != nil {
		return nil, err
	}
	for _, l := range layers {
		if t, err := l.MediaType(); err != nil || t == types.OCILayerZStd {
			return c.flattened(ctx)
		}
	}
	return image, nil
}

var errFlat = errors.New("the cache has the image flattened only")

// original is the image as it was pulled.
func (c content) original() (v1.Image, error) {
	if len(c.record.Layers) == 0 {
		return nil, errFlat
	}
	for _, l := range c.record.Layers {
		if _, err := os.Stat(c.dir.path("blobs", l)); err != nil {
			return nil, errFlat
		}
	}
	raw, err := os.ReadFile(c.dir.path("blobs", c.record.ID))
	if err != nil {
		return nil, err
	}
	manifest, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	config, err := os.ReadFile(c.dir.path("blobs", manifest.Config.Digest.String()))
	if err != nil {
		return nil, err
	}
	return partial.CompressedToImage(&cached{c.dir, raw, manifest, config})
}

// cached is an image of blobs, as go-containerregistry wants to see it.
type cached struct {
	dir           directory
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
			return &cachedLayer{c.dir, d}, nil
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
	dir directory
	d   v1.Descriptor
}

func (l *cachedLayer) Digest() (v1.Hash, error)            { return l.d.Digest, nil }
func (l *cachedLayer) Size() (int64, error)                { return l.d.Size, nil }
func (l *cachedLayer) MediaType() (types.MediaType, error) { return l.d.MediaType, nil }
func (l *cachedLayer) Compressed() (io.ReadCloser, error) {
	return os.Open(l.dir.path("blobs", l.d.Digest.String()))
}

// flattened is the image with its tree as its only layer.
func (c content) flattened(ctx context.Context) (v1.Image, error) {
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		rd, wr := io.Pipe()
		go func() { wr.CloseWithError(c.writeTar(ctx, wr)) }()
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
	c.record.describeAll(file)
	return mutate.ConfigFile(image, file)
}
