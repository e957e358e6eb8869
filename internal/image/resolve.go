package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// Resolve makes sure that a job's image is in the cache, pulled or built.
func (s *Store) Resolve(ctx context.Context, job *spec.Job, arch, policy string, report func(string, int64, int64)) (core.Image, error) {
	platform := job.Platform
	if platform == "" {
		platform = "linux/" + arch
	}
	o := PullOptions{Platform: platform, Policy: policy, Job: job, Progress: report}
	if job.Build != nil {
		return s.Build(ctx, *job.Build, o)
	}
	if job.Image == "" {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "find image", Err: errors.New("the job names none"), Remedy: "Add `image:` or `build:` to the Beefile."}
	}
	if isID(job.Image) {
		return s.byID(job.Image, job.Platform)
	}
	return s.Pull(ctx, spec.ImageFrom(job.Dir, job.Image), o)
}

// Known returns a job's image if the cache has it, without asking its source or building it.
func (s *Store) Known(ctx context.Context, job *spec.Job, arch string) (core.Image, bool) {
	ref := spec.ImageFrom(job.Dir, job.Image)
	switch {
	case job.Build != nil, job.Image == "", spec.IsEngineImage(ref):
		return core.Image{}, false
	case isID(job.Image):
		i, err := s.byID(job.Image, job.Platform)
		return i, err == nil
	}
	l, err := locator{s.limits}.locate(ctx, ref)
	if err != nil {
		return core.Image{}, false
	}
	return s.ref(l.key, cmp.Or(job.Platform, "linux/"+arch), ref)
}

// isID distinguishes an id of the cache from a reference: as with docker, no repository
// is called sha256.
func isID(word string) bool { return strings.HasPrefix(word, "sha256:") }

// byID gives an image of the cache by its id, or the beginning of one. platform,
// where it is not empty, is what it has to be for.
func (s *Store) byID(id, platform string) (core.Image, error) {
	i, err := s.Get(id)
	if err == nil && platform != "" && !isFor(i, platform) {
		err = &core.Error{Kind: core.Invalid, Op: "find image", Object: id, Err: fmt.Errorf("it is for %s/%s, and `platform:` says %s", i.OS, i.Arch, platform), Remedy: "Leave one of them out."}
	}
	return i, err
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
