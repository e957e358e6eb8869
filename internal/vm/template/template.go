// Package template stores templates of guests. A template is a guest of no run in which docker
// answers and has run a container, as it was when it was saved. Guests that start from it take
// a fraction of the time of a boot. They share its memory until they write to it, or have a
// copy where other processes map their memory.
//
// The package knows files alone: how a guest is saved and started is up to package vm.
package template

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"golang.org/x/sys/unix"
)

// Template names a template in a directory of templates, which belongs to one guest image and
// contains
//
//	<key>/       the template: a record, memory, disk, and state of the devices
//	<key>.lock   locked while a process decides about it or makes it; its word is empty
//	             before it was wanted, and unfit where it cannot be made
type Template struct{ Dir, Key string }

// Files of a template.
const (
	Record = "template.json"
	Memory = "memory"
	State  = "state"
)

// mostTemplates is how many are kept of one guest image: those that were used
// last.
const mostTemplates = 4

// Words of a template's lock.
const (
	wanted = "wanted"
	unfit  = "unfit"
)

// Info is the record of a template.
type Info struct {
	Version int                `json:"version"`
	Type    string             `json:"type"` // of QEMU's machine
	Files   map[string]Content `json:"files"`
}

// Version of the records.
const Version = 1

// Path returns the directory of the template.
func (t Template) Path() string { return filepath.Join(t.Dir, t.Key) }

// File returns the path of a file of the template.
func (t Template) File(name string) string { return filepath.Join(t.Path(), name) }

// Pin keeps a template as it is until the file is closed: on a file system of the network,
// files that are removed are gone for processes that map them, too.
func (t Template) Pin() (*os.File, error) { return t.flock(unix.LOCK_SH) }

func (t Template) flock(how int) (*os.File, error) {
	f, err := os.OpenFile(t.File(Record), os.O_RDWR, 0) // by NFS, who locks others out has to be able to write
	if err != nil {
		return nil, err
	}
	if err := fsutil.TryFlock(int(f.Fd()), how); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// remove removes a template that no guest uses.
func (t Template) remove() {
	f, err := t.flock(unix.LOCK_EX)
	if err != nil {
		return
	}
	defer f.Close()
	fsutil.TryRemoveAll(t.Path()) // what is left of it is removed before it is made again
}

// Read returns the record of a template that is there.
func (t Template) Read() (Info, error) {
	var i Info
	raw, err := os.ReadFile(t.File(Record))
	if err == nil {
		err = json.Unmarshal(raw, &i)
	}
	return i, err
}

// Ready reports whether a guest can be started from the template, after making it by build
// where that is due. A template is due when it is wanted for the second time: one that is
// wanted once would only delay its guest. Others wait while it is made, which takes less
// time than booting. The error is that of build.
func (t Template) Ready(ctx context.Context, report func(string), build func() error) (bool, error) {
	if err := os.MkdirAll(t.Dir, 0o700); err != nil {
		return false, nil // guests boot without
	}
	lock, err := t.lock(ctx)
	if err != nil {
		return false, nil // as above
	}
	defer lock.Close()
	if _, err := t.Read(); err == nil {
		return true, nil
	}
	word, err := io.ReadAll(lock)
	switch {
	case err != nil || string(word) == unfit:
		return false, nil // as above
	case len(word) == 0:
		core.BestEffort(lock.WriteString(wanted)) // then it is due later
		return false, nil
	}
	report("making a template of this virtual machine, from which the next ones start quicker")
	if err := build(); err != nil {
		if ctx.Err() == nil {
			t.giveUp()
		}
		return false, err
	}
	t.dropOthers()
	return true, nil
}

// lock waits for other processes that decide about the template.
func (t Template) lock(ctx context.Context) (*os.File, error) {
	f, err := os.OpenFile(t.Path()+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fsutil.Flock(ctx, int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// giveUp records that the template cannot be made.
func (t Template) giveUp() {
	core.BestEffort(os.WriteFile(t.Path()+".lock", []byte(unfit), 0o600)) // then the next one tries, too
}

// Drop removes a template that is damaged, so that it is made again. One that never worked
// is not made again.
func (t Template) Drop() {
	i, err := os.Stat(t.File(Record))
	if err == nil && i.ModTime().Equal(neverUsed) {
		t.giveUp()
	}
	t.remove()
}

// neverUsed is the time of use of a template from which no guest was started yet.
var neverUsed = time.Unix(0, 0)

// Used records that a guest was started from the template.
func (t Template) Used() {
	now := time.Now()
	core.BestEffort(os.Chtimes(t.File(Record), now, now)) // then it is taken for an old one
}

// dropOthers removes those templates of the guest image that were used longest ago, and
// halves that killed processes left.
func (t Template) dropOthers() {
	halves, _ := filepath.Glob(filepath.Join(t.Dir, "*"+newSuffix))
	for _, dir := range halves {
		Template{t.Dir, strings.TrimSuffix(filepath.Base(dir), newSuffix)}.dropHalf()
	}
	records, err := filepath.Glob(filepath.Join(t.Dir, "*", Record))
	if err != nil {
		return
	}
	when := map[string]time.Time{}
	others := records[:0]
	for _, r := range records {
		if i, err := os.Stat(r); err == nil && filepath.Dir(r) != t.Path() {
			when[r] = i.ModTime()
			others = append(others, r)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return when[b].Compare(when[a]) })
	for _, r := range others[min(len(others), mostTemplates-1):] {
		Template{t.Dir, filepath.Base(filepath.Dir(r))}.remove()
	}
}

// dropHalf removes what is left of a template that was being made, unless it still is.
func (t Template) dropHalf() {
	f, err := os.OpenFile(t.Path()+".lock", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if fsutil.TryFlock(int(f.Fd()), unix.LOCK_EX) == nil {
		fsutil.TryRemoveAll(t.Path() + newSuffix) // tried again by the next one
	}
}

// Begin makes the directory in which the template is made. Another one may be left of a process
// that was killed.
func (t Template) Begin() (dir string, err error) {
	dir = t.Path() + newSuffix
	return dir, errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700))
}

// newSuffix is at the end of the name of a template until it is whole.
const newSuffix = ".new"

// Commit writes the record of a template that is whole in dir, and makes it the template.
func (t Template) Commit(dir string, i Info) error {
	raw, err := json.Marshal(i)
	if err != nil {
		return err
	}
	// Nothing need be on the disk: what a crash spoils does not match its sum.
	record := filepath.Join(dir, Record)
	if err := errors.Join(fsutil.WriteFile(record, raw, 0o600), os.Chtimes(record, neverUsed, neverUsed), os.RemoveAll(t.Path())); err != nil {
		return err
	}
	return os.Rename(dir, t.Path())
}

// Check compares a file of a template with its record, and copies it into fill where that is
// not nil.
func (i Info) Check(t Template, name string, fill *os.File) error {
	f, err := os.Open(t.File(name))
	if err != nil {
		return err
	}
	defer f.Close()
	var is Content
	if fill != nil {
		is, err = fillBlocks(fill, f)
	} else {
		is, err = ReadBlocks(f, nil)
	}
	if err == nil && is != i.Files[name] {
		err = Damaged(t.File(name))
	}
	return err
}

// Damaged returns the error of a file that differs from its record.
func Damaged(file string) error {
	return &core.Error{Kind: core.Permanent, Op: "use template", Object: file, Err: errors.New("it is damaged"), Remedy: "Remove the file: the next guest makes it again."}
}
