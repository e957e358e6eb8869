package image

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/source"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// build is one build of an image into a cache.
type build struct {
	cache *Store
	spec  spec.Build
	o     PullOptions
}

// Build makes an image from a Dockerfile or from Debian packages. A build of
// the same inputs is not made twice: the second gives the first's image.
func (s *Store) Build(ctx context.Context, b spec.Build, o PullOptions) (core.Image, error) {
	o = o.filled()
	key, err := buildKey(b, o.Platform)
	if err != nil {
		return core.Image{}, err
	}
	job := &build{cache: s, spec: b, o: o}
	key = job.withBases(key)
	if i, ok := s.ref(key, o.Platform, ""); ok && o.Policy != "always" {
		return i, nil
	}
	// Two builds of one thing at once would do the work twice.
	lock, err := s.dir.lockToMake(ctx, key[len("build:"):], o, func() bool { return false })
	if err != nil {
		return core.Image{}, err
	}
	defer lock.Close()
	if i, ok := s.ref(key, o.Platform, ""); ok && o.Policy != "always" {
		return i, nil
	}
	var i core.Image
	if b.Debian != "" {
		i, err = job.debian(ctx)
	} else {
		i, err = job.dockerfile(ctx, key[len("build:"):])
	}
	if err != nil {
		return core.Image{}, err
	}
	return i, s.refs.set(key, o.Platform, i.Ref, i.ID)
}

// buildKey names a build by all that goes into it, files included.
func buildKey(b spec.Build, platform string) (string, error) {
	h := sha256.New()
	b.Builder = "" // whichever user builds it, it is the same
	raw, err := json.Marshal(b)
	if err != nil {
		return "", err
	}
	fmt.Fprintf(h, "%s\n%s\n", raw, platform)
	roots := []string{}
	if b.Context != "" {
		roots = append(roots, b.Context)
		file := b.DockerfileIn(b.Context) // which may lie elsewhere, and what builders read beside it
		roots = append(roots, slices.DeleteFunc([]string{file, file + ".dockerignore"}, func(name string) bool { return !isFile(name) })...)
	}
	for _, c := range b.Copy {
		roots = append(roots, c.From)
	}
	for _, root := range roots {
		real, err := filepath.EvalSymlinks(root) // as builders follow a link there
		if err == nil {
			err = walkForKey(h, real)
		}
		if err != nil {
			return "", &core.Error{Kind: core.Invalid, Op: "read for the build", Object: root, Err: err, Remedy: "Check `build:` in the Beefile."}
		}
	}
	return "build:" + hex.EncodeToString(h.Sum(nil)), nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// walkForKey adds what changes with the files that are below a path to a hash.
func walkForKey(h hash.Hash, root string) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %v %d %d\n", p, info.Mode(), info.Size(), info.ModTime().UnixNano())
		return nil
	})
}

// dockerfile has a builder make the image, and takes it over as an archive. The
// builder knows it by its key: what it keeps of a build that was killed, the next has.
func (b *build) dockerfile(ctx context.Context, key string) (core.Image, error) {
	file := b.spec.DockerfileIn(b.spec.Context)
	if _, err := os.Stat(file); err != nil {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "read Dockerfile", Object: file, Err: err, Remedy: "Check `build:` in the Beefile."}
	}
	builder, err := b.builder(file)
	if err != nil {
		return core.Image{}, err
	}
	w, err := b.cache.dir.newWorkplace()
	if err != nil {
		return core.Image{}, err
	}
	defer w.end()
	archive := w.path("image.tar")
	if builder == spec.BuilderVM {
		err = b.inGuest(ctx, GuestBuild{Build: b.spec, Dockerfile: file, Archive: archive, Job: b.o.Job, Progress: b.o.Progress})
	} else {
		var undo func()
		undo, err = b.lendBases(ctx, builder, file)
		if err == nil {
			err = buildWith(ctx, builder, file, b.tag(key), archive, b.spec, b.o)
		}
		undo()
	}
	if err != nil {
		return core.Image{}, err
	}
	return b.importArchive(ctx, file, archive)
}

// tag names a build to a builder, which those of other users and caches may know, too.
func (b *build) tag(key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %s", os.Geteuid(), b.cache.dir, key))
	return "bee.local/build:" + hex.EncodeToString(sum[:16])
}

// buildWith has a program of this host make the archive.
func buildWith(ctx context.Context, tool, file, tag, archive string, b spec.Build, o PullOptions) error {
	defer func() { core.BestEffort(exec.Command(tool, "rmi", tag).Run()) }() //nolint:noctx // what it keeps of it is not needed any more
	for _, argv := range dockerfileCommands(tool, file, tag, archive, b, o.Platform) {
		o.Progress(argv[0]+" "+argv[1]+" "+file, 0, 0)
		if err := run(ctx, b.Context, argv, nil, o); err != nil {
			if e, ours := errors.AsType[*core.Error](err); ours {
				e.Remedy = "Where " + tool + " itself cannot build here, `build: {builder: vm}` has a virtual machine do it."
			}
			return err
		}
	}
	return nil
}

// builder is the one that a build names, else the first that is there.
func (b *build) builder(file string) (string, error) {
	engines := spec.Engines()
	if b.spec.Builder != "" {
		engines = []string{b.spec.Builder}
	}
	for _, tool := range engines {
		if _, err := exec.LookPath(tool); err == nil && tool != spec.BuilderVM {
			return tool, nil
		}
	}
	if b.cache.BuildInGuest != nil && (b.spec.Builder == "" || b.spec.Builder == spec.BuilderVM) {
		return spec.BuilderVM, nil
	}
	return "", &core.Error{
		Kind: core.Unsupported, Op: "build", Object: file, Err: fmt.Errorf("%s is not there", cmp.Or(b.spec.Builder, "a builder")),
		Remedy: "Install it, or leave `builder:` out of `build:`: whatever is there is used then, and a virtual machine where nothing is.",
	}
}

// importArchive brings a built image into the cache.
func (b *build) importArchive(ctx context.Context, ref, archive string) (core.Image, error) {
	f, err := openFile(archive)
	if err != nil {
		return core.Image{}, err
	}
	want, err := v1.ParsePlatform(b.o.Platform)
	if err != nil {
		return core.Image{}, err
	}
	src, err := source.Archive(ctx, f, "", *want)
	if err != nil {
		return core.Image{}, err
	}
	defer src.Close()
	return b.cache.add(ctx, ref, src, b.o)
}

// dockerfileCommands are the commands by which a builder makes an archive.
func dockerfileCommands(tool, file, tag, archive string, b spec.Build, platform string) [][]string {
	build := []string{tool, "build", "-t", tag, "-f", file}
	if tool == "buildah" {
		build = append(build, "--layers")
	}
	if platform != "" {
		build = append(build, "--platform", platform)
	}
	for _, key := range sortedKeys(b.Args) {
		build = append(build, "--build-arg", key+"="+b.Args[key])
	}
	build = append(build, b.Context)
	switch tool {
	case "buildah":
		return [][]string{build, {tool, "push", tag, "docker-archive:" + archive + ":" + tag}}
	default:
		return [][]string{build, {tool, "save", "-o", archive, tag}}
	}
}

// run runs another program in dir, or in the working directory of this process where dir is
// empty. The end of its output explains a failure.
func run(ctx context.Context, dir string, argv, env []string, o PullOptions) error {
	errs := &tail{line: func(l string) { o.Progress(l, 0, 0) }}
	err := pipeFrom(ctx, dir, argv, env, errs, func(r io.ReadCloser) error {
		_, err := io.Copy(errs, r)
		return err
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &core.Error{Kind: core.Permanent, Op: "run", Object: strings.Join(argv[:min(2, len(argv))], " "), Err: fmt.Errorf("%w\n%s", err, errs.String())}
	}
	return nil
}

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
