package guest

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/vm/agent"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// adopt makes a guest that came from a template one of a run. Nothing that is
// the run's own existed when the template was made: not even its devices, which
// the kernel finds now.
func adopt(ctx context.Context, s *wire.Stream, v *volume) error {
	var r agent.AdoptRequest
	if err := s.Params(&r); err != nil {
		return err
	}
	// First of all, so that no two guests draw the same.
	if err := wake(r.Clock); err != nil {
		return err
	}
	c := r.Config
	if err := writeNames(c); err != nil {
		return err
	}
	if err := os.WriteFile("/sys/bus/pci/rescan", []byte("1"), 0o200); err != nil {
		return fmt.Errorf("look for new devices: %w", err)
	}
	parts := append(personal(c, v), func() error { return adoptImage(ctx, c.Image) })
	if c.Holds {
		parts = append(parts, func() error { return makeHeld(c) })
	}
	if err := sideBySide(parts); err != nil {
		return &core.Error{Kind: core.Permanent, Op: "set up the guest", Err: err}
	}
	return s.Reply(nil)
}

// placeholder names the layer that docker in a template knows. It is empty
// until the run's image is mounted over it.
const placeholder = "bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0"

// adoptImage gives docker, which runs already, its image.
func adoptImage(ctx context.Context, image *agent.Image) error {
	if image == nil {
		return nil
	}
	disk, err := awaitDisk(agent.ImageDisk)
	if err != nil {
		return err
	}
	if err := (mount{disk, layerDir(data, placeholder), "erofs", unix.MS_RDONLY | unix.MS_NODEV, ""}).do(); err != nil {
		return err
	}
	archive, err := loadable(*image, placeholder)
	if err != nil {
		return err
	}
	if err := engine().Load(ctx, archive); err != nil {
		return fmt.Errorf("give docker its image: %w", err)
	}
	return nil
}

// loadable is an archive for `docker load` of an image whose one layer docker
// has by that name.
func loadable(image agent.Image, layer string) (io.Reader, error) {
	var config map[string]any
	if err := json.Unmarshal(image.Config, &config); err != nil {
		return nil, err
	}
	config["rootfs"] = map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layer}}
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{image.Tag}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, f := range []struct {
		name string
		raw  []byte
	}{{"config.json", raw}, {"manifest.json", manifest}} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o600, Size: int64(len(f.raw))}))
		_, werr := w.Write(f.raw)
		err = errors.Join(err, werr)
	}
	return &archive, errors.Join(err, w.Close())
}
