package guest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/guest/api"
	"golang.org/x/sys/unix"
)

// view is an image as docker has it, whose one layer is the file system on the image
// disk, mounted where docker keeps layers. Nothing is copied or hashed, which takes
// minutes for a large image in an emulated machine.
type view struct {
	tag, layer string
	config     map[string]any
	// owners reports whose files are whose in it; nil: as they are on the disk.
	owners *exchange
}

// Names of layers, which docker in a template knows too: they are empty until the run's
// image is mounted over them. In userLayer, USER's files are the caller's.
const (
	imageLayer = "bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0bee0"
	userLayer  = "bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2bee2"
)

// views are the job's image and, where its USER counts, the same for that one's
// container: processes there are USER only inside, and the caller to the guest.
func views(c api.Config) ([]view, error) {
	plain, err := newView(c.Image.Tag, c.Image.Config, imageLayer)
	if err != nil || c.Image.User == nil {
		return []view{plain}, err
	}
	own, err := newView(api.UserTag(c.Image.Tag), c.Image.Config, userLayer)
	if settings, ok := own.config["config"].(map[string]any); ok { // for who runs it by hand
		settings["User"] = fmt.Sprintf("%d:%d", c.UID, c.GID)
	}
	u := c.Image.User
	own.owners = &exchange{[2]int{u.UID, c.UID}, [2]int{u.GID, c.GID}}
	return []view{plain, own}, err
}

func newView(tag string, config []byte, layer string) (view, error) {
	v := view{tag: tag, layer: layer}
	if err := json.Unmarshal(config, &v.config); err != nil {
		return v, err
	}
	v.config["rootfs"] = map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + layer}}
	return v, nil
}

// mount puts the view's files where docker looks for them.
func (v view) mount(disk string) error {
	m := mount{disk, layerDir(data, v.layer), "erofs", unix.MS_RDONLY | unix.MS_NODEV, ""}
	if v.owners != nil {
		return v.owners.mount(m)
	}
	return m.do()
}

// giveImage has docker find an image in its store (overlay2) when it starts, as if it
// had loaded it. The files are those of docker's layer and image stores since 1.10.
func giveImage(c api.Config) error {
	disk, err := awaitDisk(api.ImageDisk)
	if err != nil {
		return err
	}
	all, err := views(c)
	if err != nil {
		return err
	}
	store, tags, files := filepath.Join(data, "image", "overlay2"), map[string]string{}, map[string]string{}
	for _, v := range all {
		if err := errors.Join(v.mount(disk), keepLayer(data, v.layer)); err != nil {
			return err
		}
		raw, err := json.Marshal(v.config)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		id := hex.EncodeToString(sum[:])
		tags[v.tag] = "sha256:" + id
		files[filepath.Join(store, "imagedb", "content", "sha256", id)] = string(raw)
	}
	repository, _, _ := strings.Cut(c.Image.Tag, ":")
	names, err := json.Marshal(map[string]any{"Repositories": map[string]any{repository: tags}})
	if err != nil {
		return err
	}
	files[filepath.Join(store, "repositories.json")] = string(names)
	return writeFiles(files)
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

// mountTree mounts the image where programs without a container have it.
func mountTree() error {
	disk, err := awaitDisk(api.ImageDisk)
	if err != nil {
		return err
	}
	return mount{disk, api.BareTree, "erofs", unix.MS_RDONLY | unix.MS_NODEV, ""}.do()
}
