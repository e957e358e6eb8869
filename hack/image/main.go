// Command image writes an image that has bee alone, for Dockerfiles that copy it, as an
// archive for docker, podman and bee. Equal files give equal bytes, with the time of
// SOURCE_DATE_EPOCH.
//
//	go run ./hack/image VERSION ARCH FILE [PATH=SOURCE...]
//
// SOURCE becomes PATH in the image; what is below /usr/bin is a program.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: image VERSION ARCH FILE PATH=SOURCE [PATH=SOURCE]")
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
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", args[1], v1.Time{Time: at}
	config.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/bee"}, Env: []string{"PATH=/usr/bin"},
		Labels: map[string]string{"org.opencontainers.image.title": "bee", "org.opencontainers.image.version": args[0], "org.opencontainers.image.licenses": "Apache-2.0"},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return err
	}
	tag, err := name.NewTag("bee-hpc/bee:"+strings.ReplaceAll(args[0], "+", "-"), name.WithDefaultRegistry(""))
	if err != nil {
		return err
	}
	return tarball.WriteToFile(args[2], tag, image)
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
		h := tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(path, "/"), Mode: mode, Size: int64(len(raw)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(&h); err != nil {
			return nil, err
		}
		if _, err := w.Write(raw); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return out.Bytes(), err
}
