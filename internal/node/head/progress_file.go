package head

import (
	"errors"
	"io/fs"
	"time"

	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

const (
	// maxProgress bounds the file that has a job's progress, in bytes.
	maxProgress = 1 << 10
	// maxTotalFile bounds a program's own file, which has the total.
	maxTotalFile = 64 << 10
)

// lastLook bounds the wait for the file when the job has ended.
const lastLook = 2 * time.Second

// progressFile is a file of the job from which its progress is read, or the total. A volume may be
// a file system that does not answer for long: so each look is in the background, and there is one
// at a time.
type progressFile struct {
	plan    *plan.Plan
	volumes *volumes
	journal *journal.Journal
	path    string
	most    int64                        // bytes that it may have
	take    func(text string) (all bool) // gets the text; all: nothing else is wanted of it
	all     bool
	// looked is closed when a look has ended; nil: there was none.
	looked chan struct{}
	// warned is set by the look that could not read the file. One warning is enough.
	warned bool
}

// look reads the file, and returns what is closed afterwards. Where the look before has not
// ended, there is no new one.
func (f *progressFile) look() <-chan struct{} {
	if f.looked != nil {
		select {
		case <-f.looked:
		default:
			return f.looked
		}
	}
	looked := make(chan struct{})
	f.looked = looked
	if f.all {
		close(looked)
		return looked
	}
	go func() {
		defer close(looked)
		text, err := f.read()
		switch {
		case err == nil:
			f.all = f.take(text)
		case !errors.Is(err, fs.ErrNotExist) && !f.warned:
			f.warned = true
			f.journal.Remark("", "warning: no progress is read from "+f.path+": "+err.Error())
		}
	}()
	return looked
}

// last reads what the job has left, unless that takes long.
func (f *progressFile) last() {
	late := time.NewTimer(lastLook)
	defer late.Stop()
	for range 2 { // the first may have begun before the job ended
		select {
		case <-f.look():
		case <-late.C:
			return
		}
	}
}

func (f *progressFile) read() (string, error) {
	if f.plan.UsesDataImage() {
		return "", errors.New("the volume is the disk of a virtual machine")
	}
	tree, name, err := f.volumes.place(f.path)
	if err != nil {
		return "", err
	}
	defer tree.Close()
	text, err := tree.ReadFile(name, f.most)
	return string(text), err
}
