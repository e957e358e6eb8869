// Package crashes finds the run that crashes a process with the controllers of many runs. A
// panic in a goroutine that nothing guards ends the whole process, and the next process would
// start the same controllers again, without end.
//
// A process marks its runs in a directory. The Go runtime writes a crash beside these marks.
// The next process counts the crash for each of the runs, in the run's own directory. Runs
// with several crashes in a row are suspects. They are divided among small processes until
// one of them crashes a process of its own.
//
// A crash is a fault of the program, as the Go runtime reports it. A process that was killed,
// got no memory or ended with its machine has not crashed.
//
// The package must not know records, or what a controller does.
package crashes

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
)

// maxText bounds the text of a crash.
const maxText = 64 << 10

// Names in the directory of a process, and in that of all.
const (
	lockName  = "lock"
	crashName = "crash.txt"
	runsName  = "runs"
)

// suffixLen is the length of the random part of a mark's name, behind its host.
const suffixLen = 10

// Marks is the directory with the marks of all processes. Several machines may share it, and
// each reads its own.
type Marks struct{ dir, host string }

// In returns the marks in a directory of the user's own, which may be missing.
func In(dir string) (Marks, error) {
	host, err := os.Hostname()
	return Marks{dir, host}, err
}

// Mark is the mark of this process.
type Mark struct {
	dir  string
	lock *fsutil.Lock
}

// Begin marks this process, and sets the file to which the runtime writes a crash.
func (m Marks) Begin(ctx context.Context) (*Mark, error) {
	all, err := m.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer all.Unlock()
	k := &Mark{dir: filepath.Join(m.dir, m.host+"-"+rand.Text()[:suffixLen])}
	if err := fsutil.MkdirAll(filepath.Join(k.dir, runsName), 0o700); err != nil {
		return nil, err
	}
	if k.lock, err = fsutil.TryLock(filepath.Join(k.dir, lockName)); err != nil {
		return nil, err
	}
	f, err := fsutil.Append(filepath.Join(k.dir, crashName), 0o600)
	if err == nil {
		err = errors.Join(debug.SetCrashOutput(f, debug.CrashOptions{}), f.Close())
	}
	if err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// Add records that this process has a run's controller.
func (k *Mark) Add(run string) error {
	return fsutil.WriteFile(filepath.Join(k.dir, runsName, run), nil, 0o600)
}

// Remove records that the run's controller has ended. Without a record, nothing is done.
func (k *Mark) Remove(run string) error {
	err := os.Remove(filepath.Join(k.dir, runsName, run))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Close removes the mark of a process that ends without a crash.
func (k *Mark) Close() error {
	return errors.Join(debug.SetCrashOutput(nil, debug.CrashOptions{}), os.RemoveAll(k.dir), k.lock.Unlock())
}

// Crash is the end of a process by a fault of the program.
type Crash struct {
	Process string   // a name that no other process has
	Runs    []string // whose controllers it had
	Text    string   // as the runtime wrote it, with the stack
}

// Collect calls count for each crashed process of this host, and removes its mark unless
// count fails. It also removes the marks of processes that ended otherwise.
func (m Marks) Collect(ctx context.Context, count func(Crash) error) error {
	if _, err := os.Lstat(m.dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all, err := m.lock(ctx)
	if err != nil {
		return err
	}
	defer all.Unlock()
	entries, err := os.ReadDir(m.dir)
	for _, e := range entries {
		if name, ours := strings.CutPrefix(e.Name(), m.host+"-"); ours && e.IsDir() && len(name) == suffixLen {
			err = errors.Join(err, m.collect(e.Name(), count))
		}
	}
	return err
}

func (m Marks) collect(process string, count func(Crash) error) error {
	dir := filepath.Join(m.dir, process)
	lock, err := fsutil.TryLock(filepath.Join(dir, lockName))
	if core.IsKind(err, core.Busy) {
		return nil // it runs
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it has ended just now
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	text, err := readText(filepath.Join(dir, crashName))
	if err != nil {
		return err
	}
	if Reason(text) != "" {
		c := Crash{Process: process, Text: text}
		entries, err := os.ReadDir(filepath.Join(dir, runsName))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			c.Runs = append(c.Runs, e.Name())
		}
		if err := count(c); err != nil {
			return err
		}
	}
	return os.RemoveAll(dir)
}

// lock keeps others from reading a mark that is not complete yet.
func (m Marks) lock(ctx context.Context) (*fsutil.Lock, error) {
	if err := fsutil.MkdirAll(m.dir, 0o700); err != nil {
		return nil, err
	}
	return fsutil.LockFile(ctx, filepath.Join(m.dir, lockName))
}

func readText(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxText))
	return string(raw), err
}
