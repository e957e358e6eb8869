package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/vm/agent"
	"golang.org/x/sys/unix"
)

// giveImage has docker find an image in its store (overlay2) when it starts,
// as if it had loaded it: its one layer is the file system on the image disk,
// mounted where docker keeps layers. Nothing is copied or hashed, which takes
// minutes for a large image in an emulated machine. The files are those of
// docker's layer and image stores since 1.10.
func giveImage(root string, image agent.Image) error {
	disk, err := awaitDisk(agent.ImageDisk)
	if err != nil {
		return err
	}
	var c struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		} `json:"rootfs"`
	}
	if err := json.Unmarshal(image.Config, &c); err != nil {
		return err
	}
	if len(c.RootFS.DiffIDs) != 1 {
		return errors.New("it has not one layer")
	}
	layer := strings.TrimPrefix(c.RootFS.DiffIDs[0], "sha256:")
	if err := (mount{disk, layerDir(root, layer), "erofs", unix.MS_RDONLY | unix.MS_NODEV, ""}).do(); err != nil {
		return err
	}
	if err := keepLayer(root, layer); err != nil {
		return err
	}
	id := sha256.Sum256(image.Config)
	name := hex.EncodeToString(id[:])
	repository, _, _ := strings.Cut(image.Tag, ":")
	names, err := json.Marshal(map[string]any{"Repositories": map[string]any{repository: map[string]string{image.Tag: "sha256:" + name}}})
	if err != nil {
		return err
	}
	store := filepath.Join(root, "image", "overlay2")
	return writeFiles(map[string]string{
		filepath.Join(store, "imagedb", "content", "sha256", name): string(image.Config),
		filepath.Join(store, "repositories.json"):                  string(names),
	})
}

// layerDir is where docker has the files of a layer.
func layerDir(root, layer string) string { return filepath.Join(root, "overlay2", layer, "diff") }

// keepLayer has docker know a layer when it starts, whose files are there by
// then or come later.
func keepLayer(root, layer string) error {
	overlay := filepath.Join(root, "overlay2")
	short := strings.ToUpper(layer[:26])
	for _, d := range []string{layerDir(root, layer), filepath.Join(overlay, "l")} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return err
		}
	}
	if err := os.Symlink(filepath.Join("..", layer, "diff"), filepath.Join(overlay, "l", short)); err != nil {
		return err
	}
	known := filepath.Join(root, "image", "overlay2", "layerdb", "sha256", layer)
	return writeFiles(map[string]string{
		filepath.Join(overlay, layer, "link"):      short,
		filepath.Join(overlay, layer, "committed"): "",
		filepath.Join(known, "diff"):               "sha256:" + layer,
		filepath.Join(known, "cache-id"):           layer,
		filepath.Join(known, "size"):               "0",
	})
}

func writeFiles(files map[string]string) error {
	for file, text := range files {
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}
