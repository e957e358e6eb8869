package image

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"golang.org/x/sys/unix"
)

// TestFilesOfAnImageMayBeAnything: an archive, a SIF file, or what a layout holds, that someone
// else has made a FIFO, a device or a link, is refused at once.
func TestFilesOfAnImageMayBeAnything(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"fifo.index", "fifo.blob", "link.index", "link.blob"} {
		path, err := layout.Write(filepath.Join(dir, name), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		i := imageOf(t, host, map[string][]byte{"f": []byte("x")})
		if err := path.AppendImage(i, layout.WithPlatform(host)); err != nil {
			t.Fatal(err)
		}
		blob, err := i.ConfigName()
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, name, "index.json")
		if strings.HasSuffix(name, ".blob") {
			file = filepath.Join(dir, name, "blobs", "sha256", blob.Hex)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(name, "fifo") {
			err = unix.Mkfifo(file, 0o600)
		} else {
			err = os.Symlink("/dev/zero", file)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(unix.Mkfifo(filepath.Join(dir, "fifo"), 0o600), os.Symlink("/dev/zero", filepath.Join(dir, "device"))); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"oci:fifo.index", "oci:fifo.blob", "oci:link.index", "oci:link.blob", "docker-archive:fifo", "docker-archive:device", "oci-archive:fifo", "sif:fifo", "sif:device"} {
		t.Run(ref, func(t *testing.T) {
			if _, err := store(t).Resolve(t.Context(), &spec.Job{Dir: dir, Image: ref}, host.Architecture, "missing", nil); !core.IsKind(err, core.Invalid) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestLayouts: images in a directory, or an archive of one, by every way to name it.
func TestLayouts(t *testing.T) {
	dir := t.TempDir()
	path, err := layout.Write(filepath.Join(dir, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	const refName = "org.opencontainers.image.ref.name"
	put := func(tag, content string) string {
		i := imageOf(t, host, map[string][]byte{"tag": []byte(content)})
		digest, err := i.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if err := path.ReplaceImage(i, func(d v1.Descriptor) bool { return d.Annotations[refName] == tag },
			layout.WithAnnotations(map[string]string{refName: tag}), layout.WithPlatform(host)); err != nil {
			t.Fatal(err)
		}
		return digest.String()
	}
	ids := map[string]string{"one": put("one", "one"), "two": put("two", "two")}
	archive(t, filepath.Join(dir, "layout"), filepath.Join(dir, "layout.tar"), false)
	archive(t, filepath.Join(dir, "layout"), filepath.Join(dir, "layout.tar.gz"), true)
	if err := errors.Join(os.Symlink("layout", filepath.Join(dir, "link")), os.Symlink("layout.tar", filepath.Join(dir, "link.tar"))); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"oci:layout", "oci:./layout", "oci:" + dir + "/layout", "oci:link", "oci:layout.tar", "oci-archive:layout.tar", "oci-archive:./link.tar", "oci-archive:" + dir + "/layout.tar.gz"} {
		t.Run(ref, func(t *testing.T) {
			s := store(t)
			resolve := func(tag string) (core.Image, error) {
				return s.Resolve(t.Context(), &spec.Job{Dir: dir, Image: ref + ":" + tag}, host.Architecture, "missing", nil)
			}
			for _, tag := range []string{"two", "one"} {
				i, err := resolve(tag)
				if err != nil || i.ID != ids[tag] {
					t.Fatalf("%s: got %s, %v", tag, i.ID, err)
				}
				if got, err := os.ReadFile(filepath.Join(s.dir.path("trees", i.ID), "tag")); err != nil || string(got) != tag {
					t.Errorf("%s: its tree is that of %q, %v", tag, got, err)
				}
			}
			if _, err := resolve("three"); !core.IsKind(err, core.NotFound) {
				t.Errorf("a tag that is not there: %v", err)
			}
		})
	}
	t.Run("a changed layout is noticed", func(t *testing.T) {
		s := store(t)
		for n := range 2 {
			want := put("one", strings.Repeat("changed", n))
			// However coarse the clock of the file system is.
			if err := os.Chtimes(filepath.Join(dir, "layout", "index.json"), time.Time{}, time.Unix(int64(n), 0)); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Resolve(t.Context(), &spec.Job{Dir: dir, Image: "oci:layout:one"}, host.Architecture, "missing", nil); err != nil || got.ID != want {
				t.Errorf("got %s, %v; want %s", got.ID, err, want)
			}
		}
	})
}

// archive packs a directory.
func archive(t *testing.T, dir, file string, compress bool) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out io.WriteCloser = f
	if compress {
		out = gzip.NewWriter(f)
	}
	w := tar.NewWriter(out)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), out.Close()); err != nil {
		t.Fatal(err)
	}
}
