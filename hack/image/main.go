// Command image writes an image that has bee alone, for Dockerfiles that copy it: as an archive
// of docker, NAME.image.tar, and as one of OCI, NAME.oci.tar. Equal files give equal bytes, with
// the time of SOURCE_DATE_EPOCH.
//
//	go run ./hack/image VERSION ARCH NAME [PATH=SOURCE...]
//
// SOURCE becomes PATH in the image; what is below /usr/bin is a program.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: image VERSION ARCH NAME PATH=SOURCE [PATH=SOURCE]")
	}
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	at := time.Unix(epoch, 0).UTC()
	files, err := layer(args[3:], at)
	if err != nil {
		return err
	}
	docker, err := imageOf(args[0], args[1], files, at, types.DockerLayer)
	if err != nil {
		return err
	}
	tag, err := name.NewTag("bee-hpc/bee:"+strings.ReplaceAll(args[0], "+", "-"), name.WithDefaultRegistry(""))
	if err != nil {
		return err
	}
	if err := tarball.WriteToFile(args[2]+".image.tar", tag, docker); err != nil {
		return err
	}
	oci, err := imageOf(args[0], args[1], files, at, types.OCILayer)
	if err != nil {
		return err
	}
	oci = mutate.ConfigMediaType(mutate.MediaType(oci, types.OCIManifestSchema1), types.OCIConfigJSON)
	return writeOCI(args[2]+".oci.tar", tag, oci, v1.Platform{OS: "linux", Architecture: args[1]}, at)
}

// imageOf returns an image of one layer.
func imageOf(version, arch string, files []byte, at time.Time, kind types.MediaType) (v1.Image, error) {
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil }, tarball.WithMediaType(kind))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", arch, v1.Time{Time: at}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/bee"}, Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{"org.opencontainers.image.title": "bee", "org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	return mutate.ConfigFile(image, config)
}

// writeOCI writes an image as an archive of its image layout (the specification's image-layout.md),
// with the files in the order of their names.
func writeOCI(file string, tag name.Tag, image v1.Image, platform v1.Platform, at time.Time) (err error) {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	path, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// Docker and containerd read the whole name, others the tag.
	names := map[string]string{"org.opencontainers.image.ref.name": tag.TagStr(), "io.containerd.image.name": "docker.io/" + tag.RepositoryStr() + ":" + tag.TagStr()}
	if err := path.AppendImage(image, layout.WithAnnotations(names), layout.WithPlatform(platform)); err != nil {
		return err
	}
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(from string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(from)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, from)
		if err != nil {
			return err
		}
		return put(w, rel, 0o644, raw, at)
	})
	return errors.Join(err, w.Close())
}

func put(w *tar.Writer, path string, mode int64, content []byte, at time.Time) error {
	h := tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatUSTAR}
	if err := w.WriteHeader(&h); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// layer returns a tar archive of files, each given as PATH=SOURCE.
func layer(files []string, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		path, source, _ := strings.Cut(f, "=")
		raw, err := os.ReadFile(source)
		if err != nil {
			return nil, err
		}
		mode := int64(0o644)
		if strings.HasPrefix(path, "/usr/bin/") {
			mode = 0o755
		}
		if err := put(w, strings.TrimPrefix(path, "/"), mode, raw, at); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
