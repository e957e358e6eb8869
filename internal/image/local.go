package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/image/unpack"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// archiveAt is an image in an archive file, which open opens.
func archiveAt(file, tag string, open func() (*os.File, error)) (*location, error) {
	key, err := fileKey(file, "archive:"+file+":"+tag)
	return &location{key: key, fixed: true, open: func(ctx context.Context, want v1.Platform, _ PullOptions) (*source.Image, error) {
		f, err := open()
		if err != nil {
			return nil, err
		}
		return source.Archive(ctx, f, tag, want)
	}}, err
}

// sifAt is an image in a SIF file.
func (l locator) sifAt(file string) (*location, error) {
	key, err := fileKey(file, "sif:"+file)
	return &location{key: key, fixed: true, open: func(ctx context.Context, _ v1.Platform, o PullOptions) (*source.Image, error) {
		f, err := openFile(file)
		if err != nil {
			return nil, err
		}
		o.note("reading " + file)
		return source.SIF(ctx, f, l.keep)
	}}, err
}

// layoutAt is an image in a directory of the OCI image layout.
func layoutAt(dir, tag string) (*location, error) {
	key, err := fileKey(dir+"/index.json", "oci:"+dir+":"+tag)
	return &location{key: key, fixed: true, open: func(ctx context.Context, want v1.Platform, _ PullOptions) (*source.Image, error) {
		return source.Layout(ctx, dir, tag, want)
	}}, err
}

// openPlain opens an archive, which may be compressed as a whole, to be read from any
// place.
func (l locator) openPlain(file string) (*os.File, error) {
	f, err := openFile(file)
	if err != nil {
		return nil, err
	}
	return l.plain(f)
}

// openFile opens the file of an image.
func openFile(file string) (*os.File, error) {
	f, err := fsutil.OpenPlain(file)
	if errors.Is(err, fsutil.ErrNotPlain) {
		err = &core.Error{Kind: core.Invalid, Op: "read image", Object: file, Err: err, Remedy: "Name a plain file; what a program writes goes into one first."}
	}
	return f, err
}

// plain gives an archive that can be read from any place: itself, or its
// decompressed content in a file without a name, which is gone with us.
func (l locator) plain(f *os.File) (*os.File, error) {
	z, compressed, err := unpack.Decompress(f, l.limits)
	if err != nil {
		f.Close()
		return nil, err
	}
	defer z.Close()
	if !compressed {
		_, err := f.Seek(0, io.SeekStart)
		return f, err
	}
	defer f.Close()
	out, err := l.keep(z)
	if err != nil {
		return nil, fmt.Errorf("decompress %s: %w", f.Name(), err)
	}
	return out, nil
}

// keep writes a stream to a nameless file, for reading from its start.
func (l locator) keep(r io.Reader) (*os.File, error) {
	f, err := nameless()
	if err != nil {
		return nil, err
	}
	err = unpack.Copy(f, r, l.limits)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// nameless makes a temporary file that is gone with this process, whatever
// happens.
func nameless() (*os.File, error) {
	dir := os.Getenv("TMPDIR")
	if dir == "" {
		dir = "/var/tmp" // /tmp may be memory
	}
	f, err := os.CreateTemp(dir, "bee-image-")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

// storedAt is an image in docker's or podman's own storage. Asking for its id
// is quick, so that an image built again is noticed.
func (l locator) storedAt(ctx context.Context, tool, name string) (*location, error) {
	var errs tail
	c := exec.CommandContext(ctx, tool, "image", "inspect", "--format", "{{.Id}}", name)
	c.Stderr = &errs
	id, err := c.Output()
	if err != nil {
		e := &core.Error{
			Kind: core.NotFound, Op: "find image of " + tool, Object: name, Err: fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String())),
			Remedy: "`" + tool + " images` lists what is there.",
		}
		if _, missing := exec.LookPath(tool); missing != nil {
			e.Kind, e.Err, e.Remedy = core.Unsupported, missing, "Install "+tool+", or name the image by its registry."
		} else if exec.CommandContext(ctx, tool, "images", "--quiet").Run() != nil {
			e.Kind, e.Remedy = core.Unsupported, "Put right what keeps `"+tool+" images` from working here, or name the image by its registry."
		}
		return nil, e
	}
	return &location{
		key: tool + ":" + name + "\x00" + strings.TrimSpace(string(id)), fixed: true,
		open: func(ctx context.Context, want v1.Platform, o PullOptions) (*source.Image, error) {
			o.Progress("taking "+name+" out of "+tool, 0, 0)
			return l.saved(ctx, tool, name, want)
		},
	}, nil
}

// saved takes an image out of docker's or podman's storage by their own save.
func (l locator) saved(ctx context.Context, tool, name string, want v1.Platform) (*source.Image, error) {
	var errs tail
	var f *os.File
	err := pipeFrom(ctx, "", saveCommand(tool, name), nil, &errs, func(r io.ReadCloser) (err error) {
		f, err = l.keep(r)
		return err
	})
	if err != nil {
		if f != nil {
			f.Close()
		}
		if _, ours := errors.AsType[*core.Error](err); ours {
			return nil, err
		}
		return nil, &core.Error{Kind: core.Permanent, Op: tool + " save", Object: name, Err: fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))}
	}
	return source.Archive(ctx, f, "", want)
}

func saveCommand(tool, name string) []string {
	if tool == "podman" {
		return []string{tool, "save", "-q", "--format", "docker-archive", name}
	}
	return []string{tool, "save", name}
}
