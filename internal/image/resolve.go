package image

import (
	"context"
	"errors"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
)

// Resolve makes sure that a job's image is in the cache, pulled or built.
func (s *Store) Resolve(ctx context.Context, job *spec.Job, arch, policy string, report func(string, int64, int64)) (core.Image, error) {
	platform := job.Platform
	if platform == "" {
		platform = "linux/" + arch
	}
	o := PullOptions{Platform: platform, Policy: policy, Progress: report}
	if job.Build != nil {
		return s.Build(ctx, *job.Build, o)
	}
	if job.Image == "" {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "find image", Err: errors.New("the job names none"), Remedy: "Add `image:` or `build:` to the Beefile."}
	}
	return s.Pull(ctx, AbsRef(job.Image, job.Dir), o)
}

// AbsRef makes the path of a local reference absolute.
func AbsRef(ref, dir string) string {
	scheme, path, ok := strings.Cut(ref, ":")
	if ok && isLocal(ref) && !filepath.IsAbs(path) {
		return scheme + ":" + filepath.Join(dir, path)
	}
	return ref
}
