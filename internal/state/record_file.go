package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// Files beside the database, from which a new one is made where it is lost:
// the installation's id, and in each run's directory its record.
const (
	installationName = "installation"
	besideName       = "record.json"
)

// Adopted is what a new database has taken over from the directories of runs.
type Adopted struct {
	Runs []string // with a record beside their files
	Left []string // without one: what they are is not known
}

// Adopted returns what this process has adopted, as it made a new database over
// directories of runs that were there.
func (s *Store) Adopted() Adopted { return s.adopted }

// Installation returns the id of the installation whose state is in a directory, and changes nothing there; "": there is
// none yet.
func Installation(dir string) string {
	raw, err := fsutil.ReadFile(dir, installationName, longestInstallation)
	id := strings.TrimSuffix(string(raw), "\n")
	if err != nil || !IsID(id) {
		return ""
	}
	return id
}

// longestInstallation bounds the file of its id.
const longestInstallation = 64

// installation returns the id in the installation's file, which is made of a fresh one
// where there is none.
func installation(dir, fresh string) (string, error) {
	path := filepath.Join(dir, installationName)
	raw, err := fsutil.ReadFile(dir, installationName, int64(len(fresh)+1))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fresh, fsutil.WriteFile(path, []byte(fresh+"\n"), 0o600)
	case err != nil:
		return "", err
	}
	id := string(raw[:min(len(raw), len(fresh))])
	if !IsID(id) {
		return "", fmt.Errorf("%s holds no id of an installation: remove it, and bee makes a new one; what the old one has on sites is then not found any more", path)
	}
	return id, nil
}

// beside is a run's record as it is stored with its files.
type beside struct {
	Version  int       `json:"version"`
	User     string    `json:"user"`
	Run      Run       `json:"run"`
	Attempts []Attempt `json:"attempts"`
	// Keys are those of the attempts, by number.
	Keys map[int][]byte `json:"keys"`
}

const besideVersion = 1

// mostBeside bounds a record: submissions are the largest part of it.
const mostBeside = 64 << 20

// writeBeside writes a run's record into its directory, where it has one.
func (s *Store) writeBeside(ctx context.Context, id string) error {
	dir := s.RunDir(id)
	if _, err := os.Stat(dir); s.journal == alone || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	run, err := s.Run(ctx, id)
	if err != nil {
		return err
	}
	attempts, err := s.Attempts(ctx, id)
	if err != nil {
		return err
	}
	keys := map[int][]byte{}
	for i, a := range attempts {
		keys[a.N] = a.Key
		attempts[i].Unreadable = nil // no record, but why there is none
	}
	raw, err := json.Marshal(beside{besideVersion, s.user, run, attempts, keys})
	if err != nil {
		return err
	}
	// Not synced: it only counts once the database is lost, and is whole in any case.
	tmp, err := os.CreateTemp(dir, "."+besideName+"-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), filepath.Join(dir, besideName))
	}
	if err != nil {
		fsutil.TryRemove(tmp.Name()) // the first error says it
	}
	return err
}

func (s *Store) readBeside(id string) (beside, error) {
	var b beside
	raw, err := fsutil.ReadFile(s.RunDir(id), besideName, mostBeside)
	if err == nil {
		err = json.Unmarshal(raw, &b)
	}
	if err == nil && (b.Version != besideVersion || b.Run.ID != id || !IsID(id)) {
		err = fmt.Errorf("%s in %s is no record of this run", besideName, s.RunDir(id))
	}
	return b, err
}

// adopt enters the runs whose records are stored with their files into a new database.
func (s *Store) adopt(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(s.dir, runsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return unopened(s.dir, err)
	}
	for _, e := range entries {
		if !e.IsDir() || !IsID(e.Name()) || onlyLock(s.RunDir(e.Name())) {
			continue
		}
		if err := s.Adopt(ctx, e.Name()); err != nil {
			s.adopted.Left = append(s.adopted.Left, e.Name())
			continue
		}
		s.adopted.Runs = append(s.adopted.Runs, e.Name())
	}
	return nil
}

// Adopt enters a run into the database from the record beside its files.
func (s *Store) Adopt(ctx context.Context, id string) error {
	b, err := s.readBeside(id)
	if err != nil {
		return err
	}
	for _, a := range b.Attempts {
		a.Run, a.Key = id, b.Keys[a.N]
		if err := s.PutAttempt(ctx, a, false); err != nil {
			return err
		}
	}
	if err := s.PutRun(ctx, b.Run); err != nil {
		return err
	}
	if err := s.db.exec(ctx, setSuspended); err != nil {
		return err
	}
	if b.Run.StopAsked {
		return s.Requests().AskStop(ctx, id)
	}
	return nil
}
