package state

import (
	"os"
	"path/filepath"
)

// Supervisors are the processes that control a user's detached runs, one for each
// environment, which a key names. Each has a directory in the state directory.
type Supervisors struct{ dir string }

// Supervisors returns those of the state directory.
func (s *Store) Supervisors() Supervisors { return Supervisors{s.dir} }

// Dir is the directory of the supervisor of one environment: its lock, and the names of the
// runs that it shall take.
func (s Supervisors) Dir(key string) string { return filepath.Join(s.dir, supervisorsName, key) }

const supervisorsName = "controllers"

// Running returns the directories of the supervisors that run now.
func (s Supervisors) Running() (dirs []string) {
	entries, _ := os.ReadDir(filepath.Join(s.dir, supervisorsName)) // where there are none, there is none
	for _, e := range entries {
		if dir := s.Dir(e.Name()); locked(filepath.Join(dir, SupervisorLock)) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// SupervisorLock is the file in a supervisor's directory that is no run: it has it locked.
const SupervisorLock = lockName

// Lock makes this process the one that controls runs in an environment, or returns a Busy
// error where there is one.
func (s Supervisors) Lock(key string) (*Lock, error) {
	return lock(filepath.Join(s.Dir(key), SupervisorLock), "lock the controllers of", s.dir, "another bee process controls its runs")
}
