package leasedir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// ReadRecord reads a driver's record of a lease into v, of at most so many bytes. It reports whether there is one.
func ReadRecord(dir, name string, most int64, v any) (found bool, err error) {
	raw, err := fsutil.ReadFile(dir, name, most)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, v)
	}
	return true, err
}

// WriteRecord writes a driver's record of a lease, whole or not at all.
func WriteRecord(dir, name string, v any) error {
	raw, err := json.Marshal(v)
	if err == nil {
		err = fsutil.WriteFile(filepath.Join(dir, name), raw, 0o600)
	}
	if err != nil {
		return Unusable(dir, err)
	}
	return nil
}
