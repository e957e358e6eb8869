package image

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// references remembers the images that references meant when last asked: a file for each
// reference and platform.
type references struct{ dir directory }

// file names the file of a reference for a platform.
func (r references) file(key, platform string) string {
	sum := sha256.Sum256([]byte(key + "\x00" + platform))
	return r.dir.path("refs", hex.EncodeToString(sum[:16]))
}

// set keeps what a reference means. ref is what people call it, key what it is looked up
// by.
func (r references) set(key, platform, ref, id string) error {
	return r.dir.publish(r.file(key, platform), []byte(id+"\n"+ref+"\n"+platform+"\n"))
}

// get returns the image that a reference meant when last asked, and what people called it.
func (r references) get(key, platform string) (id, ref string, err error) {
	raw, err := os.ReadFile(r.file(key, platform))
	if err != nil {
		return "", "", err
	}
	id, rest, _ := strings.Cut(string(raw), "\n")
	ref, _, _ = strings.Cut(rest, "\n")
	return id, ref, nil
}

// names gives the references that mean each image.
func (r references) names() (map[string][]string, error) {
	entries, err := os.ReadDir(r.dir.folder("refs"))
	if err != nil {
		return nil, err
	}
	names := map[string][]string{}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join(r.dir.folder("refs"), e.Name()))
		if err != nil {
			continue
		}
		if lines := strings.SplitN(string(raw), "\n", 3); len(lines) == 3 && lines[1] != "" {
			names[lines[0]] = append(names[lines[0]], lines[1])
		}
	}
	return names, nil
}

// drop forgets the references that mean an image.
func (r references) drop(id string) error {
	entries, err := os.ReadDir(r.dir.folder("refs"))
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		file := filepath.Join(r.dir.folder("refs"), e.Name())
		if raw, err := os.ReadFile(file); err == nil && strings.HasPrefix(string(raw), id+"\n") {
			errs = append(errs, os.Remove(file))
		}
	}
	return errors.Join(errs...)
}
