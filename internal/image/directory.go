package image

import (
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"strings"
)

// directory is the directory of a cache: the places in it, its locks, and files and
// directories that appear in it whole.
type directory string

// folder is the directory of one kind of files, such as blobs.
func (d directory) folder(kind string) string { return filepath.Join(string(d), kind) }

// path is the place of what has an id, or a name, among those of one kind.
func (d directory) path(kind, id string) string { return filepath.Join(string(d), kind, hexOf(id)) }

func hexOf(id string) string { return strings.TrimPrefix(id, "sha256:") }

func validID(id string) bool {
	raw, err := hex.DecodeString(hexOf(id))
	return err == nil && len(raw) == sha256.Size
}
