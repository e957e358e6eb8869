package crashes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Suspect is the number of crashes in a row that makes a run a suspect.
const Suspect = 3

// row is the longest time between two crashes in a row.
const row = 24 * time.Hour

// countName is the file in a run's directory with its latest crashes.
const countName = "crashes.json"

// maxCount bounds the size of that file.
const maxCount = 4 << 10

// one is a crash of a process with the run's controller.
type one struct {
	Process string    `json:"process"`
	At      time.Time `json:"at"`
}

// Count returns the number of crashes in a row that a run has been in.
func Count(runDir string) (int, error) {
	list, err := counted(runDir)
	return len(list), err
}

// Add counts a crash for the run of a directory, once for each process, and returns the new
// count. It is 0 where the directory is gone.
func Add(runDir, process string, at time.Time) (int, error) {
	list, err := counted(runDir)
	if err != nil {
		return 0, err
	}
	if slices.ContainsFunc(list, func(o one) bool { return o.Process == process }) {
		return len(list), nil
	}
	if n := len(list); n > 0 && at.Sub(list[n-1].At).Abs() > row {
		list = nil
	}
	list = append(list, one{process, at})
	list = list[max(len(list)-Suspect-1, 0):] // no more are needed
	raw, err := json.Marshal(list)
	if err == nil {
		err = fsutil.WriteFile(filepath.Join(runDir, countName), raw, 0o600)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	return len(list), err
}

// Clear forgets the crashes of a run whose controller has ended by itself.
func Clear(runDir string) error {
	err := os.Remove(filepath.Join(runDir, countName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func counted(runDir string) ([]one, error) {
	raw, err := fsutil.ReadFile(runDir, countName, maxCount)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil && !fsutil.Spoiled(err) {
		return nil, err
	}
	var list []one
	if json.Unmarshal(raw, &list) != nil { // cut off or overwritten: counted from zero
		return nil, nil
	}
	return list, nil
}

// mostGroups bounds the number of processes for the suspects of one crash.
const mostGroups = 8

// Divide returns groups of runs, each for a process of its own. The first has all runs that
// are no suspects, and may be empty. With each crash the groups of suspects become smaller,
// until one run is alone.
func Divide(runs []string, suspect func(run string) bool) [][]string {
	var trusted, suspects []string
	for _, run := range runs {
		if suspect(run) {
			suspects = append(suspects, run)
		} else {
			trusted = append(trusted, run)
		}
	}
	groups := make([][]string, 1+min(len(suspects), mostGroups))
	groups[0] = trusted
	for i, run := range suspects {
		g := 1 + i%mostGroups
		groups[g] = append(groups[g], run)
	}
	return groups
}
