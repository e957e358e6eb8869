package state

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// RunDir is the directory of files that belong to one run. It is inside the state
// directory for any id, also for one of a record that another user has written.
func (s *Store) RunDir(id string) string { return runDir(s.dir, id) }

// runsName is the directory of the runs' directories, in the state directory.
const runsName = "runs"

func runDir(dir, id string) string { return filepath.Join(dir, runsName, runDirName(id)) }

// runDirName is the name of a run's directory: the id, or a digest of one that cannot
// be a name.
func runDirName(id string) string {
	const longest = 64
	if id == "" || len(id) > longest || strings.HasPrefix(id, ".") || strings.ContainsAny(id, "/\x00") {
		sum := sha256.Sum256([]byte(id))
		return "_" + hex.EncodeToString(sum[:8])
	}
	return id
}

// settled is how old a directory is whose maker has locked it, or never will.
const settled = time.Minute

// Unrecorded is a directory of a run of which there is no record.
type Unrecorded struct {
	ID string
	// Spare means that nothing would be lost with it: the user has forgotten the run,
	// or its directory never held anything but its lock.
	Spare bool
	// Adoptable means that its record is stored with it.
	Adoptable bool
}

// Unrecorded lists the directories of runs that have no record, and that no process
// controls.
func (s *Store) Unrecorded(ctx context.Context) (list []Unrecorded, err error) {
	locks := s.Locks()
	entries, err := os.ReadDir(filepath.Join(s.dir, runsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		id := e.Name()
		info, ierr := e.Info()
		if ierr != nil || !IsID(id) || locks.Controlled(id) || time.Since(info.ModTime()) < settled {
			continue
		}
		if _, rerr := s.Run(ctx, id); rerr == nil {
			continue
		} else if !core.IsKind(rerr, core.NotFound) {
			return list, rerr
		}
		f, ferr := s.Forgotten(ctx, id)
		if ferr != nil {
			return list, ferr
		}
		_, berr := s.readBeside(id)
		list = append(list, Unrecorded{ID: id, Spare: f.Known || onlyLock(s.RunDir(id)), Adoptable: !f.Known && berr == nil})
	}
	return list, err
}

// DependentsName is the directory in a run's that names the runs which have inputs of its
// volume, and DependentsLock the file that is locked while these are changed.
const (
	DependentsName = "dependents"
	DependentsLock = DependentsName + ".lock"
)

// onlyLock reports whether a run's directory is known to hold nothing but locks, and names of
// other runs.
func onlyLock(dir string) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if name := e.Name(); name != lockName && name != DependentsName && name != DependentsLock {
			return false
		}
	}
	return true
}
