package benchcmd

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// notesDir, in the state directory, has a note for each process that measures.
const (
	notesDir   = "bench"
	notePrefix = "run-"
	noteSize   = 64 // padded, so that one write replaces it
)

// A runNote names the run of the measurement that a process takes now, for the next study to end
// after a kill. The process has it locked.
type runNote struct {
	path string
	lock *fsutil.Lock
}

// newRunNote makes the note of this process.
func newRunNote(stateDir string) (*runNote, error) {
	dir := filepath.Join(stateDir, notesDir)
	if err := fsutil.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	n := &runNote{path: filepath.Join(dir, fmt.Sprintf("%s%016x", notePrefix, seed()))}
	var err error
	n.lock, err = fsutil.TryLock(n.path)
	return n, err
}

// write notes a run; "": none measures.
func (n *runNote) write(id string) error {
	if n == nil {
		return nil
	}
	_, err := n.lock.File().WriteAt(fmt.Appendf(nil, "%-*s\n", noteSize, id), 0)
	return err
}

// remove removes the note.
func (n *runNote) remove() {
	if n != nil {
		core.BestEffort(fsutil.RemoveAll(n.path)) // the next study removes it, too
		core.BestEffort(n.lock.Unlock())
	}
}

// leftNotes are those of processes that have ended, locked for this one.
func leftNotes(stateDir string) (left []*runNote, err error) {
	paths, err := filepath.Glob(filepath.Join(stateDir, notesDir, notePrefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		l, err := fsutil.TryLock(path)
		if core.IsKind(err, core.Busy) {
			continue
		}
		if err != nil {
			return left, err
		}
		left = append(left, &runNote{path, l})
	}
	return left, nil
}

// run is the run of a note, or "".
func (n *runNote) run() (string, error) {
	text, err := fsutil.ReadFile(filepath.Dir(n.path), filepath.Base(n.path), noteSize+1)
	return strings.TrimSpace(string(text)), err
}
