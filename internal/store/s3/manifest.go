package s3

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// manifest is what a checkpoint consists of.
type manifest struct {
	driver.Manifest
	Version int `json:"version"`
	// Bits is the binary logarithm of the average chunk size.
	Bits int `json:"bits"`
	// Tree is the volume with names in place of data, in pieces.
	Tree []object `json:"tree"`
	// Packs hold its data.
	Packs []object `json:"packs"`

	generation driver.Generation
	broken     bool
}

// object names an object by what it holds.
type object struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	// Live is how many bytes of a pack the checkpoint uses.
	Live int64 `json:"live,omitempty"`
}

const manifestVersion = 1

// format writes a manifest with its digest after it.
func (m *manifest) format() ([]byte, error) {
	m.Manifest.Tree = digestOf(m.Tree)
	raw, err := json.Marshal(m)
	return append(append(raw, '\n'), digest(raw)...), err
}

// parseManifest reads what format has written.
func parseManifest(g driver.Generation, raw []byte) manifest {
	m := manifest{generation: g}
	i := bytes.LastIndexByte(raw, '\n')
	if i < 0 || string(raw[i+1:]) != digest(raw[:i]) || core.DecodeJSON(raw[:i], &m) != nil || m.Version != manifestVersion {
		m = manifest{generation: g, broken: true}
		m.Attempt = g.Attempt
		return m
	}
	m.Manifest.Tree = digestOf(m.Tree) // whatever it says itself
	return m
}

// digestOf names a volume by the pieces of its tree, which name all its data.
func digestOf(tree []object) string {
	raw, err := json.Marshal(tree)
	if err != nil {
		return ""
	}
	return digest(raw)
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// damaged says what is wrong with a checkpoint.
func damaged(what, name string) error {
	return errors.Join(driver.ErrDamaged, errors.New(what+": "+name))
}
