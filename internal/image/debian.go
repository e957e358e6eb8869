package image

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/filestream"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/sys/unix"
)

// buildDebian makes an image from Debian packages by mmdebstrap, without root
// where the user has subordinate ids. Its tar stream is unpacked as it comes.
func (s *Store) buildDebian(ctx context.Context, b spec.Build, o PullOptions) (core.Image, error) {
	if _, err := exec.LookPath("mmdebstrap"); err != nil {
		return core.Image{}, &core.Error{Kind: core.Unsupported, Op: "build image from Debian packages", Err: errors.New("mmdebstrap is not installed here"),
			Remedy: "Install the packages mmdebstrap and uidmap, or build the image elsewhere (`bee image build`, then `bee image push`)."}
	}
	epoch, err := sourceDate(b.Snapshot)
	if err != nil {
		return core.Image{}, err
	}
	argv := debianCommand(b, hostSources(b.Debian), archOf(o.Platform))
	o.Progress(fmt.Sprintf("building an image of Debian %s with %d packages", b.Debian, len(b.Packages)), 0, 0)
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH="+strconv.FormatInt(epoch, 10), "LC_ALL=C.UTF-8")
	log := &tail{line: func(l string) { s.log.Debug(l) }}
	c.Stderr = log
	out, err := c.StdoutPipe()
	if err != nil {
		return core.Image{}, err
	}
	temp, err := os.MkdirTemp(filepath.Join(s.dir, "tmp"), "tree-")
	if err != nil {
		return core.Image{}, err
	}
	defer filestream.RemoveAll(temp) //nolint:errcheck // gone by rename when all went well
	if err := c.Start(); err != nil {
		return core.Image{}, err
	}
	u := newUnpacker(temp, DefaultLimits())
	sum := sha256.New()
	size := &hashReader{r: out, h: sum, progress: func(n int64) { o.Progress("building", n, 0) }}
	buffered := bufio.NewReaderSize(size, 1<<20)
	unpackErr := u.layer(ctx, buffered)
	if unpackErr == nil {
		_, unpackErr = io.Copy(io.Discard, buffered) // the padding counts for the digest
	} else {
		c.Process.Kill() //nolint:errcheck // it may have ended
	}
	if err := c.Wait(); err != nil {
		if ctx.Err() != nil {
			return core.Image{}, context.Cause(ctx)
		}
		if unpackErr == nil || u.entries == 0 {
			return core.Image{}, &core.Error{Kind: core.Permanent, Op: "build image from Debian packages", Err: fmt.Errorf("mmdebstrap: %w\n%s", err, log), Remedy: debianRemedy(log.String())}
		}
	}
	if unpackErr != nil {
		return core.Image{}, unpackErr
	}
	if err := u.finish(); err != nil {
		return core.Image{}, err
	}
	r, err := debianRecord(b, archOf(o.Platform), sum, size.n, epoch)
	if err != nil {
		return core.Image{}, err
	}
	r.Size = u.bytes
	lock, err := s.lock(ctx, r.ID, unix.LOCK_EX)
	if err != nil {
		return core.Image{}, err
	}
	defer lock.Close()
	if err := s.write(r); err != nil || s.Has(r.ID) {
		return r.Image, err
	}
	return r.Image, s.publish(temp, r.ID)
}

func debianRemedy(log string) string {
	switch {
	case strings.Contains(log, "newuidmap") || strings.Contains(log, "subuid"):
		return "Building without root needs the package uidmap and a line for you in /etc/subuid and /etc/subgid: ask the administrator for `usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $USER`."
	case strings.Contains(log, "Unable to locate package") || strings.Contains(log, "has no installation candidate"):
		return "Check the names under `packages:`; they are those of the suite."
	}
	return ""
}

// sourceDate is the time that all files get at most: the snapshot's, else one
// fixed moment, so that two builds of the same packages are the same image.
func sourceDate(snapshot string) (int64, error) {
	if snapshot == "" {
		return 1, nil
	}
	t, err := time.Parse("20060102T150405Z", snapshot)
	if err != nil {
		return 0, &core.Error{Kind: core.Invalid, Op: "read build.snapshot", Object: snapshot, Err: err, Remedy: "Write it as 20250520T000000Z."}
	}
	return t.Unix(), nil
}

func archOf(platform string) string {
	if _, arch, ok := strings.Cut(platform, "/"); ok {
		return arch
	}
	return runtime.GOARCH
}

// debianCommand is mmdebstrap's command line.
func debianCommand(b spec.Build, sources []string, arch string) []string {
	argv := []string{"mmdebstrap", "--variant=apt", "--architectures=" + arch, "--components=main",
		"--aptopt=APT::Install-Recommends \"false\"", "--aptopt=Acquire::Retries \"3\"",
		"--dpkgopt=force-unsafe-io",
		"--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
		"--dpkgopt=path-exclude=/usr/share/doc/*", "--dpkgopt=path-include=/usr/share/doc/*/copyright"}
	if len(b.Packages) > 0 {
		argv = append(argv, "--include="+strings.Join(b.Packages, ","))
	}
	for _, c := range b.Copy {
		argv = append(argv, "--customize-hook=mkdir -p \"$1\""+quote(filepath.Dir(c.To)), "--customize-hook="+copyHook(c))
	}
	for _, r := range b.Run {
		argv = append(argv, "--customize-hook=chroot \"$1\" /bin/sh -ec "+quote(r))
	}
	// What depends on the moment of the build.
	argv = append(argv, "--customize-hook=rm -rf \"$1\"/var/cache/ldconfig/aux-cache \"$1\"/var/log/* \"$1\"/etc/machine-id \"$1\"/etc/resolv.conf \"$1\"/etc/hostname")
	argv = append(argv, b.Debian, "-")
	if b.Mirror != "" {
		return append(argv, strings.ReplaceAll(b.Mirror, "$SNAPSHOT", b.Snapshot))
	}
	return append(argv, sources...)
}

// copyHook is mmdebstrap's own way to bring files in, which works in every
// mode: a file under its name, a directory's contents.
func copyHook(c spec.Copy) string {
	if info, err := os.Stat(c.From); err == nil && !info.IsDir() {
		return "upload " + quote(c.From) + " " + quote(c.To)
	}
	return "sync-in " + quote(c.From) + " " + quote(c.To)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// hostSources gives this host's own package sources of a suite, so that its
// mirror is used; none where the host is no Debian of that suite.
func hostSources(suite string) []string {
	files, _ := filepath.Glob("/etc/apt/sources.list.d/*.sources")
	lists, _ := filepath.Glob("/etc/apt/sources.list.d/*.list")
	for _, f := range append(append([]string{}, "/etc/apt/sources.list"), append(lists, files...)...) {
		raw, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		if uri := mirrorIn(string(raw), suite); uri != "" {
			return []string{"deb " + uri + " " + suite + " main"}
		}
	}
	return nil
}

// mirrorIn finds the URI of a suite in a sources file of either format.
func mirrorIn(text, suite string) string {
	for _, stanza := range strings.Split(text, "\n\n") {
		uri := ""
		has := false
		for _, line := range strings.Split(stanza, "\n") {
			f := strings.Fields(line)
			switch {
			case len(f) >= 2 && f[0] == "URIs:":
				uri = f[1]
			case len(f) >= 2 && f[0] == "Suites:":
				for _, s := range f[1:] {
					has = has || s == suite
				}
			case len(f) >= 4 && f[0] == "deb" && !strings.HasPrefix(f[1], "[") && f[2] == suite:
				return f[1]
			}
		}
		if has && uri != "" {
			return uri
		}
	}
	return ""
}

// debianRecord is the image of a build: its id is the digest of the manifest
// that it would have with the tar stream as its one, uncompressed layer.
func debianRecord(b spec.Build, arch string, sum hash.Hash, size, epoch int64) (record, error) {
	layer := v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum.Sum(nil))}
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
	config, err := json.Marshal(v1.ConfigFile{OS: "linux", Architecture: arch, Created: v1.Time{Time: time.Unix(epoch, 0).UTC()}, Config: c,
		RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}}})
	if err != nil {
		return record{}, err
	}
	configSum := sha256.Sum256(config)
	manifest, err := json.Marshal(v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1,
		Config: v1.Descriptor{MediaType: types.OCIConfigJSON, Size: int64(len(config)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(configSum[:])}},
		Layers: []v1.Descriptor{{MediaType: types.OCIUncompressedLayer, Size: size, Digest: layer}}})
	if err != nil {
		return record{}, err
	}
	id := sha256.Sum256(manifest)
	name := "debian:" + b.Debian
	if len(b.Packages) > 0 {
		name += "+" + strings.Join(b.Packages, "+")
	}
	return record{Created: time.Now(), Image: core.Image{ID: "sha256:" + hex.EncodeToString(id[:]), Ref: name, OS: "linux", Arch: arch, Config: configOf(c)}}, nil
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

func sortedKeys(m map[string]string) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// hashReader hashes and counts what is read through it.
type hashReader struct {
	r        io.Reader
	h        hash.Hash
	n        int64
	progress func(int64)
}

func (r *hashReader) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	r.h.Write(b[:n])
	r.n += int64(n)
	r.progress(r.n)
	return n, err
}
