package recordcmd

import (
	"slices"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/tasklog"
)

// tailRest is the pause after which the pieces that have arrived count as all so far.
const tailRest = 300 * time.Millisecond

// maxTail bounds what is kept of the last lines, in bytes: lines have no bound of their own.
const maxTail = 64 << 20

// tail shows the last lines of what was written before it began, and all that is written
// after it.
type tail struct {
	mu    sync.Mutex
	lines int
	begun time.Time
	show  func(attempt int, f tasklog.Frame) error
	kept  []keptPiece
	size  int
	// through: what was kept is shown, and everything else is shown as it comes.
	through bool
	timer   *time.Timer
	err     error
}

type keptPiece struct {
	attempt int
	frame   tasklog.Frame
}

func newTail(lines int, show func(int, tasklog.Frame) error) *tail {
	return &tail{lines: lines, begun: time.Now(), show: show}
}

// piece takes a piece of the output.
func (t *tail) piece(attempt int, f tasklog.Frame) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.through && f.Time.After(t.begun) {
		t.flush()
	}
	if t.through {
		if t.err != nil {
			return t.err
		}
		return t.show(attempt, f)
	}
	f.Data = slices.Clone(f.Data)
	t.kept, t.size = append(t.kept, keptPiece{attempt, f}), t.size+len(f.Data)
	t.trim()
	if t.timer == nil {
		t.timer = time.AfterFunc(tailRest, t.end)
	} else {
		t.timer.Reset(tailRest)
	}
	return nil
}

// trim drops the lines before the last ones.
func (t *tail) trim() {
	lines := 0
	for i := len(t.kept) - 1; i >= 0; i-- {
		data := t.kept[i].frame.Data
		for at := len(data) - 1; at >= 0; at-- {
			// The end of the very last line begins no further one.
			if data[at] != '\n' || i == len(t.kept)-1 && at == len(data)-1 {
				continue
			}
			if lines++; lines == t.lines {
				t.kept[i].frame.Data = data[at+1:]
				t.cut(i)
				return
			}
		}
	}
	for t.size > maxTail && len(t.kept) > 1 {
		t.cut(1)
	}
}

// cut drops the pieces before the ith.
func (t *tail) cut(i int) {
	t.kept = slices.Delete(t.kept, 0, i)
	t.size = 0
	for _, k := range t.kept {
		t.size += len(k.frame.Data)
	}
}

func (t *tail) flush() {
	t.through = true
	for _, k := range t.kept {
		if len(k.frame.Data) > 0 && t.err == nil && t.lines > 0 {
			t.err = t.show(k.attempt, k.frame)
		}
	}
	t.kept = nil
}

// end shows what was kept.
func (t *tail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.through {
		t.flush()
	}
}

// lastError is that of showing what was kept.
func (t *tail) lastError() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}
