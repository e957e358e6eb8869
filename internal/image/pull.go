package image

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// PullOptions of Pull.
type PullOptions struct {
	// Platform such as linux/arm64; empty: this machine's.
	Platform string
	// Policy is when to ask the source again for what is cached: missing
	// (default), always or never.
	Policy string
	// Progress, if not nil, is told what happens, with bytes where known.
	Progress func(message string, done, total int64)
}

// Pull makes sure that an image is in the cache and unpacked. A reference is
// resolved to a digest once; what is cached is used at once, unless the policy
// says otherwise. References: a registry's (docker.io by default), oci:DIR,
// docker-archive:FILE.
func (s *Store) Pull(ctx context.Context, ref string, o PullOptions) (core.Image, error) {
	if o.Platform == "" {
		o.Platform = "linux/" + runtime.GOARCH
	}
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	key := ref
	if _, file, ok := strings.Cut(ref, ":"); ok && isLocal(ref) {
		// A file may change under its name: its time and size belong to it.
		info, err := os.Stat(file)
		if err != nil {
			return core.Image{}, pullError(ref, err)
		}
		key = fmt.Sprintf("%s\x00%d\x00%d", ref, info.ModTime().UnixNano(), info.Size())
	}
	if o.Policy != "always" {
		if i, ok := s.ref(key, o.Platform); ok {
			i.Ref = ref
			return i, nil
		}
	}
	if o.Policy == "never" && !isLocal(ref) {
		return core.Image{}, &core.Error{Kind: core.NotFound, Op: "find image", Object: ref, Err: errors.New("it is not in the cache, and --pull never forbids to fetch it")}
	}
	o.Progress("resolving "+ref, 0, 0)
	source, err := s.source(ctx, ref, o.Platform)
	if err != nil {
		return core.Image{}, pullError(ref, err)
	}
	i, err := s.add(ctx, ref, source, o)
	if err != nil {
		return core.Image{}, pullError(ref, err)
	}
	return i, s.setRef(key, o.Platform, i.ID)
}

func isLocal(ref string) bool {
	return strings.HasPrefix(ref, "oci:") || strings.HasPrefix(ref, "docker-archive:")
}

// source finds the image behind a reference.
func (s *Store) source(ctx context.Context, ref, platform string) (v1.Image, error) {
	want, err := v1.ParsePlatform(platform)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read platform", Object: platform, Err: err}
	}
	if file, ok := strings.CutPrefix(ref, "docker-archive:"); ok {
		return tarball.ImageFromPath(file, nil)
	}
	if dir, ok := strings.CutPrefix(ref, "oci:"); ok {
		dir, tag, _ := strings.Cut(dir, ":")
		return fromLayout(dir, tag, want)
	}
	for scheme, tool := range map[string]string{"docker-daemon:": "docker", "podman:": "podman"} {
		if stored, ok := strings.CutPrefix(ref, scheme); ok {
			return s.saved(ctx, tool, stored)
		}
	}
	r, err := name.ParseReference(ref)
	if err != nil {
		return nil, &core.Error{Kind: core.Invalid, Op: "read image reference", Object: ref, Err: err}
	}
	return remote.Image(r, remote.WithContext(ctx), remote.WithPlatform(*want), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithJobs(4))
}

// saved takes an image out of docker's or podman's own storage, by their own
// `save`. The archive has no name any more once it is open, so that it is gone
// with this process, whatever happens.
func (s *Store) saved(ctx context.Context, tool, stored string) (v1.Image, error) {
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "saved-")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	c := exec.CommandContext(ctx, tool, "save", stored)
	if tool == "podman" {
		c.Args = []string{tool, "save", "--format", "docker-archive", stored}
	}
	var errs tail
	c.Stdout, c.Stderr = f, &errs
	if err := c.Run(); err != nil {
		return nil, &core.Error{Kind: core.NotFound, Op: tool + " save", Object: stored, Err: fmt.Errorf("%w: %s", err, errs.String()),
			Remedy: "`" + tool + " images` lists what is there."}
	}
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return tarball.Image(func() (io.ReadCloser, error) { return io.NopCloser(io.NewSectionReader(f, 0, info.Size())), nil }, nil)
}

func fromLayout(dir, tag string, want *v1.Platform) (v1.Image, error) {
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return nil, err
	}
	for _, d := range manifest.Manifests {
		if tag != "" && d.Annotations["org.opencontainers.image.ref.name"] != tag {
			continue
		}
		if d.MediaType.IsIndex() {
			inner, err := index.ImageIndex(d.Digest)
			if err != nil {
				return nil, err
			}
			if index, err = inner, nil; err != nil {
				return nil, err
			}
			m, err := inner.IndexManifest()
			if err != nil {
				return nil, err
			}
			for _, d := range m.Manifests {
				if d.Platform == nil || d.Platform.Satisfies(*want) {
					return inner.Image(d.Digest)
				}
			}
			continue
		}
		if d.Platform == nil || d.Platform.Satisfies(*want) {
			return index.Image(d.Digest)
		}
	}
	return nil, &core.Error{Kind: core.NotFound, Op: "find image in", Object: dir, Err: fmt.Errorf("it has none for %s (tag %q)", want, tag)}
}

// add brings an image into the cache.
func (s *Store) add(ctx context.Context, ref string, source v1.Image, o PullOptions) (core.Image, error) {
	digest, err := source.Digest()
	if err != nil {
		return core.Image{}, err
	}
	config, err := source.ConfigFile()
	if err != nil {
		return core.Image{}, err
	}
	r := record{Created: time.Now(), Image: core.Image{ID: digest.String(), Ref: ref, OS: config.OS, Arch: config.Architecture, Config: configOf(config.Config)}}
	lock, err := s.lock(ctx, r.ID, unix.LOCK_EX)
	if err != nil {
		return core.Image{}, err
	}
	defer lock.Close()
	if old, err := s.read(r.ID); err == nil && s.Has(r.ID) { // another process was quicker
		old.Ref = ref
		return old.Image, s.write(old)
	}
	layers, err := source.Layers()
	if err != nil {
		return core.Image{}, err
	}
	blobs, err := s.fetch(ctx, layers, o)
	if err != nil {
		return core.Image{}, err
	}
	temp, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "tree-")
	if err != nil {
		return core.Image{}, err
	}
	defer filestream.RemoveAll(temp) //nolint:errcheck // gone by rename when all went well
	u := newUnpacker(temp, DefaultLimits())
	for i, b := range blobs {
		o.Progress(fmt.Sprintf("unpacking layer %d of %d", i+1, len(blobs)), 0, 0)
		if err := u.blob(ctx, b); err != nil {
			return core.Image{}, err
		}
		r.Layers = append(r.Layers, b.digest)
	}
	if err := u.finish(); err != nil {
		return core.Image{}, err
	}
	r.Size = u.bytes
	if err := s.write(r); err != nil {
		return core.Image{}, err
	}
	return r.Image, s.publish(temp, r.ID)
}

// publish makes a whole tree visible at once.
func (s *Store) publish(temp, id string) error {
	root := s.path("trees", id)
	info, err := os.Stat(temp)
	if err != nil {
		return err
	}
	if err := os.Chmod(temp, 0o700); err != nil { // renaming a directory needs to write to it
		return err
	}
	if err := os.Rename(temp, root); err != nil {
		return err
	}
	return os.Chmod(root, info.Mode()|0o500)
}

type blob struct {
	digest string
	path   string
	layer  v1.Layer
}

// fetch brings the layers that are missing, several at once.
func (s *Store) fetch(ctx context.Context, layers []v1.Layer, o PullOptions) ([]blob, error) {
	blobs := make([]blob, len(layers))
	var (
		total int64
		mu    sync.Mutex
		done  int64
	)
	for _, l := range layers {
		if n, err := l.Size(); err == nil {
			total += n
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, l := range layers {
		d, err := l.Digest()
		if err != nil {
			return nil, err
		}
		blobs[i] = blob{digest: d.String(), path: s.path("blobs", d.String()), layer: l}
		g.Go(func() error {
			return s.fetchBlob(ctx, blobs[i], func(n int64) {
				mu.Lock()
				defer mu.Unlock()
				done += n
				o.Progress("fetching", done, total)
			})
		})
	}
	return blobs, g.Wait()
}

// fetchBlob stores one layer, verified: go-containerregistry checks digest and
// size of what it reads.
func (s *Store) fetchBlob(ctx context.Context, b blob, progress func(int64)) error {
	if info, err := os.Stat(b.path); err == nil {
		progress(info.Size())
		return nil
	}
	f, err := os.CreateTemp(filepath.Join(s.dir, "tmp"), "blob-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	r, err := b.layer.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(f, &counter{r, ctx, progress}); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Rename(f.Name(), b.path)
}

type counter struct {
	r    io.Reader
	ctx  context.Context
	told func(int64)
}

func (c *counter) Read(b []byte) (int, error) {
	if c.ctx.Err() != nil {
		return 0, context.Cause(c.ctx)
	}
	n, err := c.r.Read(b)
	c.told(int64(n))
	return n, err
}

func configOf(c v1.Config) core.ImageConfig {
	return core.ImageConfig{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, Labels: c.Labels, StopSignal: c.StopSignal}
}

func sortLongestFirst(paths []string) {
	sort.Slice(paths, func(i, j int) bool { return len(paths[i]) > len(paths[j]) })
}

// pullError gives an error of a source its kind and its remedy.
func pullError(ref string, err error) error {
	if _, ours := errors.AsType[*core.Error](err); ours {
		return err
	}
	e := &core.Error{Kind: core.Transient, Op: "get image", Object: ref, Err: err}
	if t, ok := errors.AsType[*transport.Error](err); ok {
		switch t.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			e.Kind, e.Remedy = core.Permanent, "Log in with `docker login` (or `podman login`); bee uses the same credentials."
		case http.StatusNotFound:
			e.Kind, e.Remedy = core.NotFound, "Check the image's name and tag."
		}
	}
	if errors.Is(err, os.ErrNotExist) {
		e.Kind, e.Remedy = core.NotFound, "Check the path; relative ones start at the Beefile's directory."
	}
	return e
}
