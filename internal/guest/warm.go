package guest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// warmLayer names the layer of the image of a template's own container.
const warmLayer = "bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1bee1"

// warmUp returns when docker answers and has run a container, of which nothing is
// left but what takes the first one longer than the next: the programs that start
// it are in memory, and dockerd has set its network up.
func warmUp(ctx context.Context, e ImageEngine) error {
	if err := awaitDocker(ctx, e); err != nil {
		return err
	}
	const tag = "bee.local/template:1"
	image, err := newView(tag, fmt.Appendf(nil, `{"architecture":%q,"os":"linux","config":{}}`, runtime.GOARCH), warmLayer)
	if err != nil {
		return err
	}
	archive, err := image.loadable()
	if err != nil {
		return err
	}
	if err := e.Load(ctx, archive); err != nil {
		return fmt.Errorf("give docker the template's image: %w", err)
	}
	dir, err := os.MkdirTemp("/tmp", "bee-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := driver.ContainerSpec{Name: "template", Image: driver.LocalImage{ArchiveTag: tag}, Root: true, Binary: binary, RunDir: filepath.Join(dir, "run"), StateDir: dir}
	if err := os.Mkdir(s.RunDir, 0o700); err != nil {
		return err
	}
	box, err := e.Start(ctx, s)
	if err != nil {
		return err
	}
	if err := box.Stop(ctx, time.Minute); err != nil {
		return err
	}
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) { // until the container has gone
		if err := e.RemoveImage(ctx, tag); err == nil || time.Since(begun) > dockerTimeout {
			return err
		}
	}
}
