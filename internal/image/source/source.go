// Package source reads images where they are: in a registry, an OCI layout or
// an archive. It verifies manifests and configurations, and gives the layers
// as streams that can be read from any offset. It knows nothing of the cache.
package source

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Image is one image, for one platform.
type Image struct {
	// Manifest and Config are the documents themselves. The manifest's digest
	// is the image's id.
	Manifest, Config []byte
	File             *v1.ConfigFile
	Layers           []Layer
	// Remote says that reading a layer again costs a transfer.
	Remote bool

	close func() error
}

// Layer is one layer as its source has it, lowest first.
type Layer struct {
	// Digest of what Open gives; empty where the source does not know it.
	Digest string
	// DiffID is the digest of the uncompressed layer.
	DiffID string
	// Size of what Open gives, in bytes.
	Size int64
	// Open gives the layer from an offset on. A source that has it all from
	// the start only gives errFromStart.
	Open func(ctx context.Context, offset int64) (io.ReadCloser, error)
}

// ErrFromStart says that a source ignored the offset and gives the whole layer.
var ErrFromStart = errors.New("the source gives layers only from their start")

// ID is the digest of the manifest.
func (i *Image) ID() string { return digest(i.Manifest) }

// ConfigDigest is the digest of the configuration.
func (i *Image) ConfigDigest() string { return digest(i.Config) }

// Close frees what reading the image took.
func (i *Image) Close() error {
	if i.close == nil {
		return nil
	}
	return i.close()
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// maxDocument bounds manifests and configurations, in bytes.
const maxDocument = 16 << 20

// fetch reads a document or layer of an image by its descriptor.
type fetch func(ctx context.Context, d v1.Descriptor, offset int64) (io.ReadCloser, error)

// assemble makes an image of its manifest; everything else is read by get.
func assemble(ctx context.Context, manifest []byte, get fetch) (*Image, error) {
	m, err := v1.ParseManifest(bytes.NewReader(manifest))
	if err != nil {
		return nil, invalid("read manifest", err)
	}
	if err := otherKind(manifest); err != nil {
		return nil, err
	}
	if m.Config.Digest.Hex == "" {
		return nil, invalid("read manifest", fmt.Errorf("it is of an unknown kind (%s, schema version %d)", m.MediaType, m.SchemaVersion))
	}
	config, err := document(ctx, m.Config, get)
	if err != nil {
		return nil, err
	}
	file, err := v1.ParseConfigFile(bytes.NewReader(config))
	if err != nil {
		return nil, invalid("read image configuration", err)
	}
	i := &Image{Manifest: manifest, Config: config, File: file}
	if len(file.RootFS.DiffIDs) != len(m.Layers) {
		return nil, invalid("read image configuration", fmt.Errorf("it names %d layers, the manifest %d", len(file.RootFS.DiffIDs), len(m.Layers)))
	}
	for n, d := range m.Layers {
		if strings.HasSuffix(string(d.MediaType), "+encrypted") {
			return nil, &core.Error{
				Kind: core.Unsupported, Op: "read layer", Object: d.Digest.String(), Err: errors.New("it is encrypted"),
				Remedy: "Decrypt the image first: `skopeo copy --decryption-key KEY docker://IMAGE oci:DIR`, then name it as oci:DIR.",
			}
		}
		if !layerType(d.MediaType) {
			return nil, &core.Error{
				Kind: core.Unsupported, Op: "read layer", Object: d.Digest.String(), Err: fmt.Errorf("it is of the kind %q", d.MediaType),
				Remedy: "This is no image of a container; check its name.",
			}
		}
		i.Layers = append(i.Layers, Layer{
			Digest: d.Digest.String(), DiffID: file.RootFS.DiffIDs[n].String(), Size: d.Size,
			Open: func(ctx context.Context, offset int64) (io.ReadCloser, error) {
				r, err := get(ctx, d, offset)
				return r, elsewhere(d, err)
			},
		})
	}
	return i, nil
}

func layerType(t types.MediaType) bool {
	return t.IsLayer() || strings.HasPrefix(string(t), "application/vnd.oci.image.layer.") || strings.HasPrefix(string(t), "application/vnd.docker.image.rootfs.")
}

// document reads a whole document, verified.
func document(ctx context.Context, d v1.Descriptor, get fetch) ([]byte, error) {
	if d.Size < 0 || d.Size > maxDocument {
		return nil, invalid("read "+d.Digest.String(), fmt.Errorf("%d bytes are too many", d.Size))
	}
	raw := d.Data
	if len(raw) == 0 {
		r, err := get(ctx, d, 0)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		if raw, err = io.ReadAll(io.LimitReader(r, d.Size+1)); err != nil {
			return nil, err
		}
	}
	if got := digest(raw); got != d.Digest.String() {
		return nil, &core.Error{Kind: core.Transient, Op: "read", Object: d.Digest.String(), Err: fmt.Errorf("its content has the digest %s", got), Remedy: "Try again. If that does not help, the registry has a damaged image: push it again."}
	}
	return raw, nil
}

func invalid(op string, err error) error {
	return &core.Error{Kind: core.Invalid, Op: op, Err: err}
}

// isIndex distinguishes an index from a manifest.
func isIndex(raw []byte) bool {
	var kind struct {
		MediaType types.MediaType   `json:"mediaType"`
		Manifests []json.RawMessage `json:"manifests"`
	}
	return json.Unmarshal(raw, &kind) == nil && (kind.MediaType.IsIndex() || kind.MediaType == "" && len(kind.Manifests) > 0)
}
