package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/measure"
)

// measuredName is the file of what a run has measured, in the run's directory.
const measuredName = "measured.json"

// mostMeasured bounds that file, in bytes.
const mostMeasured = 16 << 20

// WriteMeasured records what a run has measured in its directory. The store does not read it.
func WriteMeasured(runDir string, all *measure.Record) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(runDir, measuredName), raw, 0o600)
}

// ReadMeasured returns what a run has measured; an empty record: nothing.
func ReadMeasured(runDir string) (all measure.Record, err error) {
	raw, err := fsutil.ReadFile(runDir, measuredName, mostMeasured)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	return all, err
}
