package state

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/measure"
)

// Files with numbers of a run, in the run's directory. The store does not read them, so that
// lists of many runs are quick.
const (
	measuredName = "measured.json"
	samplesName  = "samples.json"
)

// mostNumbers bounds such a file, in bytes.
const mostNumbers = 16 << 20

// WriteMeasured records what a run has measured.
func WriteMeasured(runDir string, all *measure.Record) error {
	return writeNumbers(runDir, measuredName, all)
}

// ReadMeasured returns what a run has measured; an empty record: nothing.
func ReadMeasured(runDir string) (measure.Record, error) {
	return readNumbers[measure.Record](runDir, measuredName)
}

// WriteSamples records what the nodes of a run have used.
func WriteSamples(runDir string, all *measure.Samples) error {
	return writeNumbers(runDir, samplesName, all)
}

// ReadSamples returns what the nodes of a run have used; empty: nothing is known, as of runs of
// an earlier bee.
func ReadSamples(runDir string) (measure.Samples, error) {
	return readNumbers[measure.Samples](runDir, samplesName)
}

func writeNumbers(runDir, name string, all any) error {
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return fsutil.WriteFile(filepath.Join(runDir, name), raw, 0o600)
}

func readNumbers[T any](runDir, name string) (all T, err error) {
	raw, err := fsutil.ReadFile(runDir, name, mostNumbers)
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &all)
	}
	return all, err
}
