package testkit

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Layer is the one layer of an image: a tar archive in memory. Where two entries have one
// name, the later replaces the earlier.
type Layer struct {
	t   testing.TB
	raw bytes.Buffer
	tar *tar.Writer
}

// NewLayer begins an empty layer.
func NewLayer(t testing.TB) *Layer {
	l := &Layer{t: t}
	l.tar = tar.NewWriter(&l.raw)
	return l
}

// Add adds an entry, with data where it is a plain file.
func (l *Layer) Add(h tar.Header, data []byte) {
	l.t.Helper()
	h.Size, h.ModTime = int64(len(data)), time.Unix(1, 0)
	if err := l.tar.WriteHeader(&h); err != nil {
		l.t.Fatal(err)
	}
	if _, err := l.tar.Write(data); err != nil {
		l.t.Fatal(err)
	}
}

// Link adds a symbolic link.
func (l *Layer) Link(path, target string) {
	l.t.Helper()
	l.Add(tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, nil)
}

// Busybox adds Debian's static busybox, with applets, to a directory.
func (l *Layer) Busybox(dir, applets string) {
	l.t.Helper()
	binary, err := os.ReadFile(RequireTool(l.t, "busybox"))
	if err != nil {
		l.t.Fatal(err)
	}
	l.Add(tar.Header{Typeflag: tar.TypeReg, Name: dir + "/busybox", Mode: 0o755}, binary)
	for _, applet := range strings.Fields(applets) {
		l.Link(dir+"/"+applet, "busybox")
	}
}

// Archive writes a docker-archive of the layer with a configuration, and gives its path. The image
// may have further tags.
func (l *Layer) Archive(tag string, config v1.Config, others ...string) string {
	l.t.Helper()
	if err := l.tar.Close(); err != nil {
		l.t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(l.raw.Bytes())), nil })
	if err != nil {
		l.t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		l.t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		l.t.Fatal(err)
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		l.t.Fatal(err)
	}
	tagged := map[name.Tag]v1.Image{}
	for _, tag := range append([]string{tag}, others...) {
		parsed, err := name.NewTag(tag)
		if err != nil {
			l.t.Fatal(err)
		}
		tagged[parsed] = image
	}
	path := filepath.Join(l.t.TempDir(), "image.tar")
	if err := tarball.MultiWriteToFile(path, tagged); err != nil {
		l.t.Fatal(err)
	}
	return path
}

// Busybox writes a docker-archive of a small real image (Debian's static
// busybox with its applets) and gives its path. It has an account app, 1234 with the
// group 1235, whose home and a file `own` in it nobody else may read.
func Busybox(t testing.TB, config v1.Config) string {
	t.Helper()
	l := NewLayer(t)
	for _, dir := range []string{"bin", "etc", "usr", "usr/bin", "tmp", "root", "home", "dev", "proc", "sys", "var"} {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		l.Add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}, nil)
	}
	l.Add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\napp:x:1234:1235:App:/home/app:/bin/sh\n"))
	l.Add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\nteam:x:1235:\n"))
	l.Add(tar.Header{Typeflag: tar.TypeDir, Name: "home/app/", Mode: 0o700, Uid: 1234, Gid: 1235}, nil)
	l.Add(tar.Header{Typeflag: tar.TypeReg, Name: "home/app/own", Mode: 0o600, Uid: 1234, Gid: 1235}, []byte("app's\n"))
	l.Busybox("bin", "sh true false echo cat ls sleep env id kill pwd mkdir touch grep sed awk seq head tail wc dd ps hostname printf test rm cp mv ln stat chmod sort date yes tr readlink chroot mount umount mknod mkfifo")
	return l.Archive("bee.test/busybox:1", config)
}

// Program adds a program of this machine at its own path, with the libraries that it needs,
// and further libraries.
func (l *Layer) Program(program string, libraries ...string) {
	l.t.Helper()
	l.file(program)
	for _, file := range append([]string{program}, libraries...) {
		out, err := exec.CommandContext(l.t.Context(), "ldd", file).Output()
		if err != nil {
			l.t.Fatalf("find the libraries of %s: %v", file, err)
		}
		for _, field := range strings.Fields(string(out)) {
			if strings.HasPrefix(field, "/") {
				l.file(field)
			}
		}
	}
	for _, library := range libraries {
		l.file(library)
	}
}

// file adds a file of this machine at its own path.
func (l *Layer) file(path string) {
	l.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Add(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: 0o755}, data)
}
