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
	"github.com/bee-hpc/bee/internal/guest/api"
)

// adopt makes a guest that came from a template one of a run. Nothing that is
// the run's own existed when the template was made: not even its devices, which
// the kernel finds now.
func adopt(ctx context.Context, r api.AdoptRequest, v *volume, e ImageEngine) error {
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
	parts := append(personal(c, v), func() error { return adoptImage(ctx, c, e) })
	if c.Holds {
		parts = append(parts, func() error { return makeHeld(c) })
	}
	if err := core.Together(parts); err != nil {
		return &core.Error{Kind: core.Permanent, Op: "set up the guest", Err: err}
	}
	return nil
}

// adoptImage gives docker, which runs already, its image.
func adoptImage(ctx context.Context, c api.Config, e ImageEngine) error {
	if c.Image == nil {
		return nil
	}
	disk, err := awaitDisk(api.ImageDisk)
	if err != nil {
		return err
	}
	all, err := views(c)
	if err != nil {
		return err
	}
	for _, v := range all {
		if err := v.mount(disk); err != nil {
			return err
		}
		archive, err := v.loadable()
		if err != nil {
			return err
		}
		if err := e.Load(ctx, archive); err != nil {
			return fmt.Errorf("give docker its image: %w", err)
		}
	}
	return nil
}

// loadable is an archive for `docker load` of an image whose one layer docker has.
func (v view) loadable() (io.Reader, error) {
	raw, err := json.Marshal(v.config)
	if err != nil {
		return nil, err
	}
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{v.tag}, "Layers": []string{"layer.tar"}}})
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
