package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// Fenced is a directory that changes only as long as its record names the volume. Each change locks the
// directory, as taking the record over does: a process that was stopped changes nothing any more once
// another volume has the directory.
type Fenced struct {
	*Tree
	ctx  context.Context // ends with Stop
	stop context.CancelFunc
}

// ErrSuperseded is the cause where another volume has taken the remote over, or its record is missing.
var ErrSuperseded = errors.New("the remote is no longer that of this volume")

// Fence puts a directory behind its record.
func Fence(t *Tree) *Fenced {
	f := &Fenced{Tree: t}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// Stop implements Remote.
func (f *Fenced) Stop() { f.stop() }

// change carries a change out, if the directory is the volume's.
func (f *Fenced) change(do func() error) error {
	return f.Locked(f.ctx, func() error {
		if err := f.Claimed(); err != nil {
			return err
		}
		return do()
	})
}

// Claimed returns an error where the record of the directory does not name the volume. It may be a mount
// point whose file system is missing. The error then has no errno, so that it passes.
func (t *Tree) Claimed() error {
	raw, err := t.Record()
	switch {
	case errors.Is(err, fs.ErrPermission):
		return &Refusal{Denied, err}
	case err != nil:
		return fmt.Errorf("the record %s of volume %s cannot be read: %s. Mount the file system of that directory", t.RecordPath(), t.volume, err.Error())
	case !Names(raw, t.volume):
		return fmt.Errorf("%s is the record of another volume than %s: %w", t.RecordPath(), t.volume, ErrSuperseded)
	}
	return nil
}

// Names reports whether a record is that of a volume.
func Names(record []byte, volume string) bool {
	var of struct {
		ID string `json:"id"`
	}
	return json.Unmarshal(record, &of) == nil && of.ID == volume
}

// Write implements Remote.
func (f *Fenced) Write(ctx context.Context, name string, ino uint64, c Content) (partial string, v Version, err error) {
	if err := f.Claimed(); err != nil { // it changes no name that users see, and takes long
		return "", v, err
	}
	return f.Tree.Write(ctx, name, ino, c)
}

// Ensure implements Remote.
func (f *Fenced) Ensure(dir string) error {
	if _, err := f.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.change(func() error { return f.Tree.Ensure(dir) })
}

// Discard implements Remote.
func (f *Fenced) Discard(name string, ino uint64) error {
	return f.change(func() error { return f.Tree.Discard(name, ino) })
}

// Publish implements Remote.
func (f *Fenced) Publish(partial, name string, ours, expect Version) (v Version, err error) {
	err = f.change(func() error {
		v, err = f.Tree.Publish(partial, name, ours, expect)
		return err
	})
	return v, err
}

// Remove implements Remote.
func (f *Fenced) Remove(name string, ino uint64, expect Version) error {
	return f.change(func() error { return f.Tree.Remove(name, ino, expect) })
}

// Move implements Remote.
func (f *Fenced) Move(from, to string, seq uint64, ours, expect Version) (v Version, err error) {
	err = f.change(func() error {
		v, err = f.Tree.Move(from, to, seq, ours, expect)
		return err
	})
	return v, err
}

// MoveDir implements Remote.
func (f *Fenced) MoveDir(from, to string, seq uint64, ours Version, over bool) (moved map[string]Version, err error) {
	err = f.change(func() error {
		moved, err = f.Tree.MoveDir(from, to, seq, ours, over)
		return err
	})
	return moved, err
}

// Mkdir implements Remote.
func (f *Fenced) Mkdir(name string, mode uint32) error {
	return f.change(func() error { return f.Tree.Mkdir(name, mode) })
}

// Rmdir implements Remote.
func (f *Fenced) Rmdir(name string) error {
	return f.change(func() error { return f.Tree.Rmdir(name) })
}

// Symlink implements Remote.
func (f *Fenced) Symlink(target, name string) error {
	return f.change(func() error { return f.Tree.Symlink(target, name) })
}

// SetAttr implements Remote.
func (f *Fenced) SetAttr(name string, seq uint64, ours Version, mode uint32, mtime int64) (v Version, err error) {
	err = f.change(func() error {
		v, err = f.Tree.SetAttr(name, seq, ours, mode, mtime)
		return err
	})
	return v, err
}

// Keep implements Remote.
func (f *Fenced) Keep(from, to string, ours Version) error {
	return f.change(func() error { return f.Tree.Keep(from, to, ours) })
}

// RemoveRecord implements Remote.
func (f *Fenced) RemoveRecord() error { return f.change(f.Tree.RemoveRecord) }
