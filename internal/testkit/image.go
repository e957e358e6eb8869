package testkit

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
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

// Busybox writes a docker-archive of a small real image (Debian's static
// busybox with its applets) and gives its path. It has an account app, 1234 with the
// group 1235, whose home and a file `own` in it nobody else may read.
func Busybox(t testing.TB, config v1.Config) string {
	t.Helper()
	binary, err := os.ReadFile(RequireTool(t, "busybox"))
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(h tar.Header, data []byte) {
		h.Size, h.ModTime = int64(len(data)), time.Unix(1, 0)
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"bin", "etc", "usr", "usr/bin", "tmp", "root", "home", "dev", "proc", "sys", "var"} {
		mode := int64(0o755)
		if dir == "tmp" {
			mode = 0o1777
		}
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: mode}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, binary)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/root:/bin/sh\napp:x:1234:1235:App:/home/app:/bin/sh\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\nteam:x:1235:\n"))
	add(tar.Header{Typeflag: tar.TypeDir, Name: "home/app/", Mode: 0o700, Uid: 1234, Gid: 1235}, nil)
	add(tar.Header{Typeflag: tar.TypeReg, Name: "home/app/own", Mode: 0o600, Uid: 1234, Gid: 1235}, []byte("app's\n"))
	for _, applet := range strings.Fields("sh true false echo cat ls sleep env id kill pwd mkdir touch grep sed awk seq head tail wc dd ps hostname printf test rm cp mv stat chmod sort date yes tr readlink chroot mount umount mknod") {
		add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}, nil)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil })
	if err != nil {
		t.Fatal(err)
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	file, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	file = file.DeepCopy()
	file.Architecture, file.OS, file.Config = runtime.GOARCH, "linux", config
	if image, err = mutate.ConfigFile(image, file); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "busybox.tar")
	tag, err := name.NewTag("bee.test/busybox:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(path, tag, image); err != nil {
		t.Fatal(err)
	}
	return path
}
