package image

import (
	"context"
	"encoding/json"
	"io"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/bee-hpc/bee/internal/image/erofs"
)

// FileSystem gives the image as a read-only file system (EROFS) that a kernel
// mounts, the configuration (JSON) of the image whose one layer that is, and
// the tag under which engines shall know it.
func (s *Store) FileSystem(ctx context.Context, id string) (path, tag string, config []byte, err error) {
	r, err := s.read(id)
	if err != nil {
		return "", "", nil, err
	}
	path, err = s.derived(ctx, id, fileSystemSuffix, func(to string) error {
		f, err := os.Create(to)
		if err != nil {
			return err
		}
		defer f.Close()
		rd, wr := io.Pipe()
		go func() { wr.CloseWithError(content{s.dir, r}.writeTar(ctx, wr)) }()
		err = erofs.Write(f, rd)
		rd.CloseWithError(err) // so that a writer whose reader has failed ends
		if err != nil {
			return err
		}
		return f.Close()
	})
	if err != nil {
		return "", "", nil, err
	}
	// The layer's digest only has to name it: engines compare it with that of
	// the layer they have, and never see the tar stream of which it would be.
	layer := v1.Hash{Algorithm: "sha256", Hex: hexOf(id)}
	file := &v1.ConfigFile{RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{layer}}}
	r.describe(file)
	config, err = json.Marshal(file)
	return path, tagOf(id), config, err
}

// describeAll sets all that the image's configuration says, but for its layers.
func (r record) describeAll(file *v1.ConfigFile) {
	var whole v1.ConfigFile
	if len(r.Document) == 0 || json.Unmarshal(r.Document, &whole) != nil {
		r.describe(file)
		for _, v := range r.Config.Volumes {
			if file.Config.Volumes == nil {
				file.Config.Volumes = map[string]struct{}{}
			}
			file.Config.Volumes[v] = struct{}{}
		}
		return
	}
	whole.RootFS, whole.History = file.RootFS, file.History
	*file = whole
	file.OS, file.Architecture = r.OS, r.Arch
}

// describe sets what an image's configuration says of it.
func (r record) describe(file *v1.ConfigFile) {
	file.OS, file.Architecture = r.OS, r.Arch
	c := r.Config
	file.Config = v1.Config{Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkingDir: c.WorkingDir, User: c.User, Labels: c.Labels, StopSignal: c.StopSignal}
}
