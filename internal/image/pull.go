package image

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"runtime"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// PullOptions of Pull.
type PullOptions struct {
	// Platform such as linux/arm64; empty: this machine's.
	Platform string
	// Policy is when to ask the source again for what is cached: missing
	// (default), always or never.
	Policy string
	// Insecure allows a registry without TLS, or with a certificate that
	// nobody authenticates. To this machine itself plain HTTP is always allowed.
	Insecure bool
	// Job, if not nil, is the one that a build is for: in a virtual machine, it is in
	// one like the job's.
	Job *spec.Job
	// Accept, if not nil, refuses an image by its configuration, before its layers come.
	Accept func(ref string, c core.ImageConfig) error
	// Progress, if not nil, is given what happens, with bytes where known. It
	// may be called by several goroutines, but not at once.
	Progress func(message string, done, total int64)
}

func (o PullOptions) filled() PullOptions {
	if o.Platform == "" {
		o.Platform = "linux/" + runtime.GOARCH
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	return o
}

// Pull makes sure that an image is in the cache and unpacked. A reference is
// resolved to a digest once; what is cached is used at once, unless the policy
// says otherwise. References: a registry's (docker.io by default),
// oci:DIR[:TAG], docker-archive:FILE[:NAME], sif:FILE, docker-daemon:NAME, podman:NAME.
func (s *Store) Pull(ctx context.Context, ref string, o PullOptions) (core.Image, error) {
	return s.pullFrom(ctx, ref, func() (*location, error) { return locator{s.limits}.locate(ctx, ref) }, o)
}

// pullFrom is Pull from where locate says that the image is.
func (s *Store) pullFrom(ctx context.Context, ref string, locate func() (*location, error), o PullOptions) (core.Image, error) {
	o = o.filled()
	want, err := v1.ParsePlatform(o.Platform)
	if err != nil {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "read platform", Object: o.Platform, Err: err, Remedy: "Write it as linux/arm64."}
	}
	l, err := locate()
	if err != nil {
		return core.Image{}, pullError(ref, err)
	}
	// The key of a digest or of a file names its content: no need to ask.
	if o.Policy != "always" || l.fixed {
		if i, ok := s.ref(l.key, o.Platform, ref); ok {
			return i, o.accepts(ref, i.Config)
		}
	}
	if o.Policy == "never" && l.remote {
		return core.Image{}, &core.Error{
			Kind: core.NotFound, Op: "find image", Object: ref, Err: fmt.Errorf("it is not in the cache for %s, and --pull never forbids to fetch it", o.Platform),
			Remedy: "`bee image pull` fetches it.",
		}
	}
	o.Progress("resolving "+ref, 0, 0)
	src, err := l.open(ctx, *want, o)
	if err != nil {
		return core.Image{}, pullError(ref, err)
	}
	defer src.Close()
	if err := src.Check(*want); err != nil {
		return core.Image{}, pullError(ref, err)
	}
	if err := o.accepts(ref, configOf(src.File.Config)); err != nil {
		return core.Image{}, err
	}
	i, err := s.add(ctx, ref, src, o)
	if err != nil {
		return core.Image{}, pullError(ref, err)
	}
	return i, s.refs.set(l.key, o.Platform, ref, i.ID)
}

func (o PullOptions) note(line string) { o.Progress(line, 0, 0) }

func (o PullOptions) accepts(ref string, c core.ImageConfig) error {
	if o.Accept == nil {
		return nil
	}
	return o.Accept(ref, c)
}

// pullError gives an error of a source its kind and its remedy.
func pullError(ref string, err error) error {
	return sourceError("get image", ref, "Check the registry's name and the network, or use what is cached with --pull never.", err)
}

// pushError does so for an image that is sent.
func pushError(ref string, err error) error {
	return sourceError("push image", ref, "Check the registry's name and the network.", err)
}

func sourceError(op, ref, unreached string, err error) error {
	if ours, ok := errors.AsType[*core.Error](err); ok {
		if ours.Object == "" {
			ours.Object = ref
		}
		return err
	}
	e := &core.Error{Kind: core.Transient, Op: op, Object: ref, Err: err}
	if t, ok := errors.AsType[*transport.Error](err); ok {
		switch t.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			e.Kind, e.Remedy = core.Permanent, "Check the name; if it is right, log in with `docker login` or `podman login`: bee uses the same credentials."
		case http.StatusNotFound:
			e.Kind, e.Remedy = core.NotFound, "Check the image's name and tag."
		}
		return e
	}
	_, ofFile := errors.AsType[*fs.PathError](err) // which looks like one of the network, too
	_, ofNetwork := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, context.Canceled):
		e.Kind = core.Stopped
	case errors.Is(err, fs.ErrNotExist):
		e.Kind, e.Remedy = core.NotFound, "Check the path."
	case fsutil.IsFull(err):
		e.Remedy = unpack.RemedyFull
	case ofFile:
		e.Kind = core.Permanent
	case ofNetwork:
		e.Remedy = unreached
	}
	return e
}
