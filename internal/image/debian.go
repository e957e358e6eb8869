package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/debian"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// debian makes an image from Debian packages by mmdebstrap, without root
// where the user has subordinate ids. Its tar stream is unpacked as it comes.
func (b *build) debian(ctx context.Context) (core.Image, error) {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return core.Image{}, &core.Error{
			Kind: core.Unsupported, Op: "build image from Debian packages", Err: errors.New("mmdebstrap is not installed here"),
			Remedy: "Install the packages mmdebstrap and uidmap, or build the image elsewhere (`bee image build`, then `bee image push`).",
		}
	}
	d := debian.Options{Arch: archOf(b.o.Platform), Sources: debian.Sources(b.spec)}
	if dump, err := exec.CommandContext(ctx, "apt-config", "dump").Output(); err == nil {
		d.Apt = debian.AptSettings(string(dump))
	}
	epoch, err := debian.Epoch(ctx, b.spec, d.Sources)
	if err != nil {
		return core.Image{}, err
	}
	w, err := b.cache.dir.newWorkplace()
	if err != nil {
		return core.Image{}, err
	}
	defer w.end()
	if err := os.Mkdir(w.path(treeName), 0o700); err != nil {
		return core.Image{}, err
	}
	u, err := unpack.New(w.path(treeName), b.cache.limits)
	if err != nil {
		return core.Image{}, err
	}
	defer u.Close()
	packages := "packages"
	if len(b.spec.Packages) == 1 {
		packages = "package"
	}
	b.o.Progress(fmt.Sprintf("building an image of Debian %s with %d %s", b.spec.Debian, len(b.spec.Packages), packages), 0, 0)
	if len(b.spec.Copy)+len(b.spec.Run) > 0 {
		base := w.path("packages.tar")
		if err := b.packageLayer(ctx, d, epoch, base); err != nil {
			return core.Image{}, err
		}
		d.Base = base
	}
	var size int64
	layer := ""
	err = runDebian(ctx, b.spec, d, epoch, b.o, func(r io.ReadCloser) error {
		c := &countReader{ReadCloser: r, report: func(n int64) { size = n; b.o.Progress("unpacking what was built", n, 0) }}
		var err error
		layer, err = u.Blob(ctx, c)
		return err
	})
	if err != nil {
		return core.Image{}, err
	}
	r, err := debianRecord(b.spec, d.Arch, layer, size, epoch)
	if err != nil {
		return core.Image{}, err
	}
	return b.cache.makeOnce(ctx, r, b.o, func() (core.Image, error) { return b.cache.finish(r, u, w) })
}

// runDebian runs mmdebstrap for a build, and has its tar stream read.
func runDebian(ctx context.Context, b spec.Build, d debian.Options, epoch int64, o PullOptions, read func(io.ReadCloser) error) error {
	log := &tail{line: func(l string) { o.Progress(l, 0, 0) }, skip: debian.Chatter}
	// Its helpers are of Debian's own Python: another one in PATH, as pyenv's, may not work in its namespace.
	path := "PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + os.Getenv("PATH")
	env := append(debian.Environment(b), path, "SOURCE_DATE_EPOCH="+strconv.FormatInt(epoch, 10), "LC_ALL=C.UTF-8")
	if err := pipeFrom(ctx, "", debian.Command(b, d), env, log, read); err != nil {
		return debianError(ctx, err, log.String())
	}
	return nil
}

// pipeFrom runs a program and has its output read. The program ends when we
// do, whatever ends us.
func pipeFrom(ctx context.Context, dir string, argv, env []string, errs io.Writer, read func(io.ReadCloser) error) error {
	c := tethered(ctx, argv)
	c.Dir, c.Env = dir, append(os.Environ(), env...)
	c.Stderr = errs
	out, err := c.StdoutPipe()
	if err != nil {
		return err
	}
	readErr, err := runTethered(c, func() error { return read(out) })
	if err != nil && core.KindOf(readErr) == core.Permanent { // then the program's end is why its output broke off
		return err
	}
	return readErr
}

func debianError(ctx context.Context, err error, log string) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if _, ours := errors.AsType[*core.Error](err); ours {
		return err
	}
	e := &core.Error{Kind: core.Permanent, Op: "build image from Debian packages", Err: fmt.Errorf("mmdebstrap: %w\n%s", err, log)}
	switch {
	case strings.Contains(log, "newuidmap") || strings.Contains(log, "subuid") || strings.Contains(log, "unable to pick chroot mode"):
		e.Remedy = "Building without root needs the package uidmap and a line for you in /etc/subuid and /etc/subgid: ask the administrator for `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`."
	case strings.Contains(log, "arch-test") || strings.Contains(log, "qemu user emulation"):
		e.Kind = core.Unsupported
		e.Remedy = "Packages of another architecture than this machine's are set up by qemu-user: ask the administrator for the packages arch-test, binfmt-support and qemu-user-static; or build on a machine of that architecture."
	case strings.Contains(log, "Unable to locate package") || strings.Contains(log, "has no installation candidate"):
		e.Remedy = "Check the names under `packages:`; they are those of the suite."
	case strings.Contains(log, "Could not resolve") || strings.Contains(log, "Failed to fetch"):
		e.Kind, e.Remedy = core.Transient, "Check the network, and the mirror in /etc/apt or `mirror:`."
	}
	return e
}

func archOf(platform string) string {
	if _, arch, ok := strings.Cut(platform, "/"); ok {
		return arch
	}
	return runtime.GOARCH
}

// debianRecord is the image of a build: its id is the digest of the manifest
// that it would have with the tar stream as its one, uncompressed layer.
func debianRecord(b spec.Build, arch, layer string, size, epoch int64) (record, error) {
	diff, err := v1.NewHash(layer)
	if err != nil {
		return record{}, err
	}
	c := v1.Config{WorkingDir: b.Workdir, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
	for _, key := range sortedKeys(b.Env) {
		if key == "PATH" {
			c.Env[0] = "PATH=" + b.Env[key]
			continue
		}
		c.Env = append(c.Env, key+"="+b.Env[key])
	}
	c.Entrypoint, c.Cmd = commandOf(b.Entrypoint), commandOf(b.Cmd)
	if b.Cmd == nil {
		c.Cmd = []string{"/bin/sh"}
	}
	config, err := json.Marshal(v1.ConfigFile{
		OS: "linux", Architecture: arch, Created: v1.Time{Time: time.Unix(epoch, 0).UTC()}, Config: c,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{diff}},
	})
	if err != nil {
		return record{}, err
	}
	configSum := sha256.Sum256(config)
	manifest, err := json.Marshal(v1.Manifest{
		SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(configSum[:])}},
		Layers: []v1.Descriptor{{MediaType: types.OCIUncompressedLayer, Size: size, Digest: diff}},
	})
	if err != nil {
		return record{}, err
	}
	id := sha256.Sum256(manifest)
	return record{Created: time.Now(), Image: core.Image{ID: "sha256:" + hex.EncodeToString(id[:]), Ref: debianName(b), OS: "linux", Arch: arch, Config: configOf(c)}, Document: config}, nil
}

// mostInName is how many packages an image is named by: with all of many nobody
// would read it.
const mostInName = 4

// debianName is what people call an image: the suite, and what is in it.
func debianName(b spec.Build) string {
	words := append([]string{"debian:" + b.Debian}, b.Packages...)
	if more := len(b.Packages) - mostInName; more > 0 {
		words = append(words[:1+mostInName], strconv.Itoa(more)+"-more")
	}
	return strings.Join(words, "+")
}

func commandOf(c *spec.Command) []string {
	switch {
	case c == nil:
		return nil
	case c.Shell != "":
		return []string{"/bin/sh", "-c", c.Shell}
	}
	return c.Argv
}

// countReader counts what is read through it.
type countReader struct {
	io.ReadCloser
	n      int64
	report func(int64)
}

func (r *countReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.n += int64(n)
	r.report(r.n)
	return n, err
}
