package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// GuestBuild is a build of a Dockerfile in a virtual machine.
type GuestBuild struct {
	spec.Build
	// Dockerfile is the whole path of the file, in Context or not, and Archive that
	// at which an archive of the image shall be, as `docker save` writes it.
	Dockerfile, Archive string
	// Bases are images that it builds on, for docker to find them.
	Bases []GuestBase
	// Job is the one that the image is for, or nil.
	Job *spec.Job
	// Output takes what the build writes.
	Output io.Writer
	// Progress is that of PullOptions.
	Progress func(message string, done, total int64)
}

// GuestBase is an image that a Dockerfile calls Ref, and that is called Tag in Archive.
type GuestBase struct{ Ref, Archive, Tag string }

// buildInGuest has the image built in a virtual machine; the end of what the build
// wrote explains a failure.
func (s *Store) buildInGuest(ctx context.Context, b GuestBuild, o PullOptions) error {
	if want, err := v1.ParsePlatform(o.Platform); err != nil || want.Architecture != runtime.GOARCH {
		return &core.Error{
			Kind: core.Unsupported, Op: "build", Object: b.Dockerfile, Err: fmt.Errorf("virtual machines here are for linux/%s, and the image is to be for %s", runtime.GOARCH, o.Platform),
			Remedy: "Build it on a machine of that architecture, or where buildah, podman or docker emulate it.",
		}
	}
	release, err := s.getBases(ctx, &b, o)
	defer release()
	if err != nil {
		return err
	}
	out := &tail{line: func(l string) { o.Progress(l, 0, 0) }}
	b.Output = out
	o.Progress("building "+b.Dockerfile+" in a virtual machine", 0, 0)
	code, err := s.BuildInGuest(ctx, b)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e := &core.Error{Kind: core.KindOf(err), Op: "build in a virtual machine", Object: b.Dockerfile, Err: err, Remedy: core.Remedy(err)}
		if b.Builder == "" {
			e.Remedy = strings.TrimSpace(e.Remedy + " Where buildah, podman or docker is installed, none is needed; or build the image elsewhere, and name it by `image:`.")
		}
		return e
	case code != 0:
		return &core.Error{Kind: core.Permanent, Op: "build in a virtual machine", Object: b.Dockerfile, Err: fmt.Errorf("docker ended with code %d\n%s", code, out)}
	}
	return nil
}

// getBases gets the images that a build is based on as this user does it, with
// credentials, proxies and registries of this machine that the guest has not, and keeps
// them until release is called.
func (s *Store) getBases(ctx context.Context, b *GuestBuild, o PullOptions) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	text, err := os.ReadFile(b.Dockerfile)
	if err != nil {
		return release, err
	}
	for _, ref := range bases(string(text), o.Platform, b.Args) {
		base := GuestBase{Ref: ref}
		i, err := s.Pull(ctx, ref, o)
		if err == nil {
			var r func()
			if _, r, err = s.Tree(ctx, i.ID); err == nil {
				held = append(held, r)
				o.Progress("packing "+ref+" for the build", 0, 0)
				base.Archive, base.Tag, err = s.Archive(ctx, i.ID)
			}
		}
		if err != nil {
			return release, &core.Error{Kind: core.KindOf(err), Op: "get what to build on for", Object: b.Dockerfile, Err: err, Remedy: core.Remedy(err)}
		}
		b.Bases = append(b.Bases, base)
	}
	return release, nil
}

// Empty gives the image without files, for this machine's architecture: for containers in
// which nothing runs.
func (s *Store) Empty(ctx context.Context) (core.Image, error) {
	src, err := source.Empty(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})
	if err != nil {
		return core.Image{}, err
	}
	return s.add(ctx, "empty", src, PullOptions{}.filled())
}
