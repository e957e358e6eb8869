package image

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// location is where a reference says that an image is.
type location struct {
	key    string // by which its image is remembered
	fixed  bool   // the key names the content
	remote bool
	open   func(ctx context.Context, want v1.Platform, o PullOptions) (*source.Image, error)
}

// locator finds images by references, and opens those in files and in the storage of
// other engines within limits. It knows no cache.
type locator struct{ limits unpack.Limits }

// locate finds where a reference says that the image is.
func (l locator) locate(ctx context.Context, ref string) (*location, error) {
	if err := spec.CheckForeign(ref); err != nil {
		return nil, err
	}
	scheme, rest, _ := strings.Cut(spec.ImageFrom("", ref), ":")
	switch scheme {
	case "oci":
		dir, tag := spec.SplitPath(rest)
		if info, err := os.Stat(dir); err != nil || !info.Mode().IsRegular() {
			return layoutAt(dir, tag)
		}
		return l.archiveNamed(rest)
	case "sif":
		file, _ := spec.SplitPath(rest)
		return l.sifAt(file)
	case "docker-archive", "oci-archive":
		return l.archiveNamed(rest)
	case "docker-daemon":
		return l.storedAt(ctx, "docker", rest)
	case "podman":
		return l.storedAt(ctx, "podman", rest)
	}
	r, err := source.ParseRef(ref, false)
	if err != nil {
		return nil, err
	}
	return &location{
		key: r.Name(), fixed: strings.Contains(ref, "@sha256:"), remote: true,
		open: func(ctx context.Context, want v1.Platform, o PullOptions) (*source.Image, error) {
			return source.Registry(ctx, ref, want, o.Insecure, o.note)
		},
	}, nil
}

// archiveNamed is an image in an archive, by its path and the tag behind that.
func (l locator) archiveNamed(rest string) (*location, error) {
	file, tag := spec.SplitPath(rest)
	return archiveAt(file, tag, func() (*os.File, error) { return l.openPlain(file) })
}

// fileKey is a key that changes when the file does.
func fileKey(path, ref string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s\x00%d\x00%d", ref, info.ModTime().UnixNano(), info.Size()), nil
}
