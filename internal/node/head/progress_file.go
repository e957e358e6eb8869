package head

import (
	"errors"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

// maxProgress bounds the file that has a job's progress, in bytes.
const maxProgress = 1 << 10

// lastLook bounds the wait for the file when the job has ended.
const lastLook = 2 * time.Second

// progressFile is a file of the job from which its progress is read. A volume may be a file system
// that does not answer for long: so each look is in the background, and there is one at a time.
type progressFile struct {
	plan    *plan.Plan
	volumes *volumes
	journal *journal.Journal
	// looked is closed when a look has ended; nil: there was none.
	looked chan struct{}
	// warned is set by the look that could not read the file. One warning is enough.
	warned bool
}

// look reads the file, and returns what is closed afterwards. Where the look before has not
// ended, there is no new one.
func (f *progressFile) look(into *measure.Reader) <-chan struct{} {
	if f.looked != nil {
		select {
		case <-f.looked:
		default:
			return f.looked
		}
	}
	looked := make(chan struct{})
	f.looked = looked
	go func() {
		defer close(looked)
		text, err := f.read()
		switch {
		case err == nil:
			into.File(text)
		case !errors.Is(err, fs.ErrNotExist) && !f.warned:
			f.warned = true
			f.journal.Remark("", "warning: no progress is read from "+f.plan.ProgressFile+": "+err.Error())
		}
	}()
	return looked
}

// last reads what the job has left, unless that takes long.
func (f *progressFile) last(into *measure.Reader) {
	late := time.NewTimer(lastLook)
	defer late.Stop()
	for range 2 { // the first may have begun before the job ended
		select {
		case <-f.look(into):
		case <-late.C:
			return
		}
	}
}

func (f *progressFile) read() (string, error) {
	if f.plan.UsesDataImage() {
		return "", errors.New("the volume is the disk of a virtual machine")
	}
	tree, name, err := f.volumes.place(f.plan.ProgressFile)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	text, err := tree.ReadFile(name, maxProgress)
	return string(text), err
}
