package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// push makes an image of files of this machine, below /usr, and sends it to a
// registry. The sizes are in bytes.
func (m imageBench) push(to string, size int64, layers int) (compressed int64, err error) {
	files, err := content(size)
	if err != nil {
		return 0, err
	}
	var list []mutate.Addendum
	for i := range layers {
		part := files[i*len(files)/layers : (i+1)*len(files)/layers]
		tarFile := filepath.Join(m.b.dir, fmt.Sprintf("layer%d.tar.gz", i))
		c := exec.Command("tar", "-C", "/", "--no-recursion", "--null", "-T", "-", "-czf", tarFile)
		c.Stdin = strings.NewReader(strings.Join(part, "\x00"))
		if out, err := c.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("tar: %w\n%s", err, out)
		}
		layer, err := tarball.LayerFromFile(tarFile, tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return 0, err
		}
		n, err := layer.Size()
		if err != nil {
			return 0, err
		}
		compressed += n
		list = append(list, mutate.Addendum{Layer: layer, MediaType: types.OCILayer})
	}
	image, err := mutate.Append(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), list...)
	if err != nil {
		return 0, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return 0, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Config = "linux", "amd64", v1.Config{Cmd: []string{"/bin/true"}}
	if image, err = mutate.ConfigFile(image, file); err != nil {
		return 0, err
	}
	ref, err := name.ParseReference(to)
	if err != nil {
		return 0, err
	}
	return compressed, remote.Write(ref, image)
}

// content lists files below /usr of about a size in all.
func content(size int64) ([]string, error) {
	var files []string
	seen := map[string]bool{} // podman refuses a layer that names a file twice
	enough := errors.New("enough")
	for _, root := range []string{"/usr/bin", "/usr/share/perl", "/usr/share/doc", "/usr/lib/python3", "/usr/include", "/usr/lib/gcc", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/usr/share"} {
		err := filepath.Walk(root, func(p string, info os.FileInfo, err error) error {
			if err != nil || info.Size() > 60<<20 || seen[p] {
				return nil // whatever else there is will do
			}
			seen[p] = true
			files = append(files, p[1:])
			if info.Mode().IsRegular() {
				size -= info.Size()
			}
			if size < 0 {
				return enough
			}
			return nil
		})
		if errors.Is(err, enough) {
			return files, nil
		}
	}
	return nil, errors.New("this machine has too few files for so large an image")
}
