package image

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Formats of archives that Save writes.
const (
	DockerArchive = "docker-archive"
	OCIArchive    = "oci-archive"
)

// Save writes an image as an archive, under a name, for engines and hosts without this
// cache: with its own layers where the cache has them, else flattened, as one layer.
func (s *Store) Save(ctx context.Context, id, called, format string, w io.Writer) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	_, release, err := s.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	b, c := bufio.NewWriterSize(w, 1<<20), content{s.dir, r}
	switch format {
	case DockerArchive:
		err = c.saveDocker(ctx, called, b)
	case OCIArchive:
		err = c.saveOCI(ctx, called, b)
	default:
		return &core.Error{Kind: core.Invalid, Op: "save image", Object: called, Err: fmt.Errorf("%q is no format of archives", format), Remedy: "Ask for " + DockerArchive + " or " + OCIArchive + "."}
	}
	if err == nil {
		err = b.Flush()
	}
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("save image %s: %w", called, err)
	}
	return nil
}

func (c content) saveDocker(ctx context.Context, called string, w io.Writer) error {
	image, err := c.forDocker(ctx)
	if err != nil {
		return err
	}
	tag, err := name.NewTag(called)
	if err != nil { // an id, or a digest
		if tag, err = name.NewTag(tagOf(c.record.ID)); err != nil {
			return err
		}
	}
	return tarball.Write(tag, image, w)
}

func (c content) saveOCI(ctx context.Context, called string, w io.Writer) error {
	image, err := c.original()
	if err != nil {
		if image, err = c.flattened(ctx); err != nil {
			return err
		}
	}
	place, err := c.dir.newWorkplace()
	if err != nil {
		return err
	}
	defer place.end()
	dir := place.path("layout")
	l, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := l.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": called}), layout.WithPlatform(v1.Platform{OS: c.record.OS, Architecture: c.record.Arch})); err != nil {
		return err
	}
	return writeFilesOf(w, dir)
}

// writeFilesOf writes the files of a directory as a tar stream.
func writeFilesOf(w io.Writer, dir string) error {
	t := tar.NewWriter(w)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: filepath.ToSlash(rel), Mode: 0o644, Size: info.Size()}); err != nil {
			return err
		}
		_, err = io.Copy(t, f)
		return err
	})
	return errors.Join(err, t.Close())
}
