package image

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
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

// inGuest has the image built in a virtual machine; the end of what the build
// wrote explains a failure.
func (b *build) inGuest(ctx context.Context, g GuestBuild) error {
	if want, err := v1.ParsePlatform(b.o.Platform); err != nil || want.Architecture != runtime.GOARCH {
		return &core.Error{
			Kind: core.Unsupported, Op: "build", Object: g.Dockerfile, Err: fmt.Errorf("virtual machines here are for linux/%s, and the image is to be for %s", runtime.GOARCH, b.o.Platform),
			Remedy: "Build it on a machine of that architecture, or where buildah, podman or docker emulate it.",
		}
	}
	release, err := b.getBases(ctx, &g)
	defer release()
	if err != nil {
		return err
	}
	out := &tail{line: func(l string) { b.o.Progress(l, 0, 0) }}
	g.Output = out
	b.o.Progress("building "+g.Dockerfile+" in a virtual machine", 0, 0)
	code, err := b.cache.BuildInGuest(ctx, g)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		e := &core.Error{Kind: core.KindOf(err), Op: "build in a virtual machine", Object: g.Dockerfile, Err: err, Remedy: core.Remedy(err)}
		if g.Builder == "" {
			e.Remedy = strings.TrimSpace(e.Remedy + " Where buildah, podman or docker is installed, none is needed; or build the image elsewhere, and name it by `image:`.")
		}
		return e
	case code != 0:
		return &core.Error{Kind: core.Permanent, Op: "build in a virtual machine", Object: g.Dockerfile, Err: fmt.Errorf("docker ended with code %d\n%s", code, out), Remedy: "Correct the Dockerfile: the lines above are what docker printed."}
	}
	return nil
}

// getBases gets the images that a build is based on as this user does it, with
// credentials, proxies and registries of this machine that the guest has not, and keeps
// them until release is called.
func (b *build) getBases(ctx context.Context, g *GuestBuild) (release func(), err error) {
	var held []func()
	release = func() {
		for _, r := range held {
			r()
		}
	}
	text, err := os.ReadFile(g.Dockerfile)
	if err != nil {
		return release, err
	}
	for _, ref := range bases(string(text), b.o.Platform, g.Args) {
		base := GuestBase{Ref: ref}
		i, err := b.cache.Pull(ctx, ref, b.o)
		if err == nil {
			var r func()
			if _, r, err = b.cache.Tree(ctx, i.ID); err == nil {
				held = append(held, r)
				b.o.Progress("packing "+ref+" for the build", 0, 0)
				base.Archive, base.Tag, err = b.cache.Archive(ctx, i.ID)
			}
		}
		if err != nil {
			return release, &core.Error{Kind: core.KindOf(err), Op: "get what to build on for", Object: g.Dockerfile, Err: err, Remedy: core.Remedy(err)}
		}
		g.Bases = append(g.Bases, base)
	}
	return release, nil
}
