package retention

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"path"
	"path/filepath"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/state"
)

// PassedVolume returns the directory on the submitting machine with what other runs have as
// inputs of a run's volume, where its site keeps no files without its hosts.
func PassedVolume(runDir string) string { return filepath.Join(runDir, "passed") }

// PassedAt returns where a path of the volume is then, in a directory of its own: another path
// may be below it, and have come alone.
func PassedAt(runDir, name string) string {
	sum := sha256.Sum256([]byte(name))
	base := path.Base(name)
	if base == "." {
		base = "volume"
	}
	return filepath.Join(PassedVolume(runDir), hex.EncodeToString(sum[:8]), base)
}

// Dependents are the ids of runs that have inputs of a run's volume. They are names only:
// whether one needs the volume, its own record shows.
type Dependents struct{ runDir string }

// DependentsOf returns those of a run.
func DependentsOf(store *state.Store, run string) Dependents { return Dependents{store.RunDir(run)} }

// Lock keeps the dependents of the run, and what is decided by them, as they are. ctx bounds the
// wait for other processes.
func (d Dependents) Lock(ctx context.Context) (unlock func(), err error) {
	if err := fsutil.MkdirAll(d.runDir, 0o700); err != nil {
		return nil, err
	}
	lock, err := fsutil.LockFile(ctx, filepath.Join(d.runDir, state.DependentsLock))
	if err != nil {
		return nil, err
	}
	return func() { core.BestEffort(lock.Unlock()) }, nil // its end is that of the descriptor, too
}

// Add adds a run. It is called before the run is on record, so that no end of a process has the
// volume removed that the run needs.
func (d Dependents) Add(run string) error {
	if err := fsutil.MkdirAll(filepath.Join(d.runDir, state.DependentsName), 0o700); err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Create(run, 0o600) // without fsync, as an array has thousands
	if errors.Is(err, fs.ErrExist) {  // another case of its pack
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

func (d Dependents) open() (*fsutil.Root, error) {
	return fsutil.OpenRoot(filepath.Join(d.runDir, state.DependentsName))
}

// Remove removes a run.
func (d Dependents) Remove(run string) error {
	root, err := d.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(run)
}

// Each calls look with the dependents until it returns false or an error.
func (d Dependents) Each(look func(run string) (more bool, err error)) error {
	root, err := d.open()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	names, err := root.ReadDir(".")
	if err != nil {
		return err
	}
	for _, name := range names {
		if more, err := look(name); !more || err != nil {
			return err
		}
	}
	return nil
}
