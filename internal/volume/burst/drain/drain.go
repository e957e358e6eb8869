// Package drain carries out on a remote what a burst buffer has changed, one operation
// after the other. What another program has changed on the remote stays as it is: ours
// is stored beside it, and reported.
//
// The package decides and acts; it keeps nothing. Who calls it repeats what fails, and
// records what was done.
package drain

import (
	"context"
	"errors"
	"io/fs"
	"path"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Remote is what a drain needs of a remote: see remote.Remote.
type Remote interface {
	Stat(name string) (remote.Entry, error)
	Ensure(dir string) error
	Write(ctx context.Context, name string, ino uint64, c remote.Content) (partial string, v remote.Version, err error)
	Discard(name string, ino uint64) error
	Publish(partial, name string, ours, expect remote.Version) (remote.Version, error)
	Remove(name string, ino uint64, expect remote.Version) error
	Move(from, to string, seq uint64, ours, expect remote.Version) (remote.Version, error)
	MoveDir(from, to string, seq uint64, ours remote.Version, over bool) (map[string]remote.Version, error)
	Mkdir(name string, mode uint32) error
	Rmdir(name string) error
	Symlink(target, name string) error
	SetAttr(name string, seq uint64, ours remote.Version, mode uint32, mtime int64) (remote.Version, error)
}

// Job is the first operation of a queue, with what is known about its nodes at that time.
type Job struct {
	Op meta.Op
	// Moved is whether Commit has asked the remote to move something, whatever it answered.
	Moved bool

	volume string
	kind   remote.Kind
	target string
	there  bool // the remote has the node, at place
	place  string
	at     uint64
	as     string
	v      remote.Version
	unsent bool   // it was removed before it was sent
	dir    string // of the operation, on the remote
	local  bool
	old    *replaced
}

// replaced is what an operation takes the place of.
type replaced struct {
	place string
	kind  remote.Kind
	v     remote.Version
}

// First prepares the first operation of a queue; nil where there is none. volume names
// whose conflicts there are.
func First(s *meta.State, volume string) *Job {
	o := s.First()
	if o == nil {
		return nil
	}
	n := s.Node(o.Ino)
	j := &Job{Op: *o, volume: volume, kind: n.Kind, target: n.Target, at: n.At, as: n.As, v: n.Version, local: n.Local}
	j.place, j.there = s.RemotePath(n)
	// After a crash, what was begun may have been published. A checkpoint that is queued may have it.
	j.unsent = o.Kind == meta.Put && s.Barrier() == s.Generation() && !n.There && n.Removed && !n.Over && o.Partial == ""
	if d := s.Node(o.Dir); d != nil {
		j.dir, _ = s.RemotePath(d)
	}
	if old := s.Node(o.Replaced); old != nil {
		if place, there := s.RemotePath(old); there {
			j.old = &replaced{place: place, kind: old.Kind, v: old.Version}
		}
	}
	return j
}

// Writes reports whether Prepare has content to write.
func (j *Job) Writes() bool { return j.Op.Kind == meta.Put && !j.unsent && j.Op.Partial == "" }

// Prepare sends the version of a Put, whose content c has. What it returns goes into the
// journal, by DoBegin, before Commit.
func (j *Job) Prepare(ctx context.Context, r Remote, c remote.Content) (meta.Change, error) {
	to := j.place
	if !j.there {
		to = path.Join(j.dir, j.Op.Name)
		if j.dir == "" {
			return meta.Change{}, errDir
		}
	}
	if err := r.Ensure(path.Dir(to)); err != nil {
		return meta.Change{}, err
	}
	c.Seq, c.Size, c.Mode, c.Mtime = j.Op.Seq, j.Op.Size, j.Op.Mode, j.Op.Mtime
	name, v, err := r.Write(ctx, to, j.Op.Ino, c)
	if err != nil {
		return meta.Change{}, err
	}
	j.Op.Partial, j.Op.Begun = name, v
	return meta.Change{Do: meta.DoBegin, Ino: j.Op.Ino, Partial: name, V: v}, nil
}

var errDir = errors.New("its directory is not on the remote")

// ensure has a directory on the remote, and makes what another program has removed of it.
func (j *Job) ensure(r Remote) error {
	if j.dir == "" {
		return errDir
	}
	return r.Ensure(j.dir)
}

// Commit carries the operation out. What it returns goes into the journal. After a crash
// in between it is called again, and finds what it has done.
func (j *Job) Commit(r Remote) (meta.Change, error) {
	c := meta.Change{Do: meta.DoDone, Ino: j.Op.Ino, Dir: j.Op.Dir, Name: j.Op.Name, V: j.v}
	var err error
	switch j.Op.Kind {
	case meta.Put:
		err = j.put(r, &c)
	case meta.Mkdir, meta.Symlink:
		err = j.make(r, &c)
	case meta.Rename:
		err = j.rename(r, &c)
	case meta.Unlink, meta.Rmdir:
		err = j.remove(r, &c)
	case meta.SetAttr:
		err = j.setAttr(r, &c)
	}
	return c, err
}

func (j *Job) put(r Remote, c *meta.Change) error {
	if j.unsent {
		c.Skipped = true
		if j.dir == "" {
			return nil
		}
		if err := r.Discard(path.Join(j.dir, j.Op.Name), j.Op.Ino); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	}
	name, expect := path.Join(j.dir, j.Op.Name), remote.Version{}
	if j.there {
		name, expect = j.place, j.v
		c.Dir, c.Name = j.at, j.as
	}
	publish := func(name string, expect remote.Version) (err error) {
		c.V, err = r.Publish(j.Op.Partial, name, j.Op.Begun, expect)
		return err
	}
	err := publish(name, expect)
	if j.there && errors.Is(err, remote.ErrForeign) {
		if _, serr := r.Stat(name); errors.Is(serr, fs.ErrNotExist) { // removed by another program: nothing is replaced
			err = publish(name, remote.Version{})
		}
	}
	if errors.Is(err, remote.ErrForeign) {
		return j.aside(c, path.Dir(name), func(other string) error {
			return publish(other, remote.Version{})
		})
	}
	return err
}

// aside stores what must not replace something at a name beside it, which is free.
func (j *Job) aside(c *meta.Change, dir string, store func(name string) error) error {
	c.Conflict = true
	return remote.Beside(j.Op.Name, j.volume, func(name string) error {
		c.Name = name
		return store(path.Join(dir, name))
	})
}

func (j *Job) make(r Remote, c *meta.Change) error {
	if err := j.ensure(r); err != nil {
		return err
	}
	store := func(name string) error {
		if j.Op.Kind == meta.Mkdir {
			return r.Mkdir(name, j.Op.Mode)
		}
		return r.Symlink(j.target, name)
	}
	err := store(path.Join(j.dir, j.Op.Name))
	if errors.Is(err, remote.ErrForeign) {
		err = j.aside(c, j.dir, store)
	}
	if err != nil {
		return err
	}
	e, err := r.Stat(path.Join(j.dir, c.Name))
	c.V = e.Version
	return err
}

func (j *Job) rename(r Remote, c *meta.Change) error {
	if !j.there {
		c.Skipped = true // it was removed before it was sent, or is sent to its new name
		return nil
	}
	if err := j.ensure(r); err != nil {
		return err
	}
	to, expect := path.Join(j.dir, j.Op.Name), remote.Version{}
	if j.old != nil && j.old.place == to {
		expect = j.old.v
	} else if j.old != nil { // it was stored beside its name
		var err error
		if j.old.kind == remote.Dir {
			err = r.Rmdir(j.old.place)
		} else {
			err = r.Remove(j.old.place, j.Op.Replaced, j.old.v)
		}
		if err != nil && !errors.Is(err, remote.ErrForeign) {
			return err
		}
	}
	ours := j.v
	move := func(to string, expect remote.Version) (err error) {
		j.Moved = true
		if j.kind == remote.Dir {
			c.Versions, err = r.MoveDir(j.place, to, j.Op.Seq, ours, !expect.None())
			return err
		}
		v, err := r.Move(j.place, to, j.Op.Seq, ours, expect)
		if ours == j.v { // else it is seen to be another one
			c.V = v
		}
		return err
	}
	err := move(to, expect)
	if errors.Is(err, fs.ErrClosed) { // another program has changed it: its version is moved
		if e, serr := r.Stat(j.place); serr == nil && e.Kind == j.kind {
			ours = e.Version
			err = move(to, expect)
		}
	}
	if errors.Is(err, remote.ErrForeign) {
		if _, serr := r.Stat(to); errors.Is(serr, fs.ErrNotExist) {
			err = move(to, remote.Version{})
		}
	}
	if errors.Is(err, remote.ErrForeign) {
		err = j.aside(c, j.dir, func(name string) error { return move(name, remote.Version{}) })
	}
	if errors.Is(err, fs.ErrNotExist) {
		if _, serr := r.Stat(j.place); errors.Is(serr, fs.ErrNotExist) { // removed by another program
			return j.lost(r, c)
		}
	}
	return err
}

// lost reports a node that another program has removed before it was renamed. Directories and
// links are made again at the new name; files are published there by a Put.
func (j *Job) lost(r Remote, c *meta.Change) error {
	c.Conflict, c.Name = true, j.Op.Name
	again := *j
	switch j.kind {
	case remote.Dir:
		again.Op.Kind, again.Op.Mode = meta.Mkdir, 0o755
	case remote.Link:
		again.Op.Kind = meta.Symlink
	default:
		c.Lost = true
		return nil
	}
	return again.make(r, c)
}

func (j *Job) remove(r Remote, c *meta.Change) error {
	if !j.there {
		c.Skipped = true
		return nil
	}
	var err error
	if j.Op.Kind == meta.Rmdir {
		err = r.Rmdir(j.place)
	} else {
		err = r.Remove(j.place, j.Op.Ino, j.v)
	}
	if errors.Is(err, fs.ErrNotExist) { // so is its directory
		return nil
	}
	if errors.Is(err, remote.ErrForeign) {
		c.Conflict = true
		return nil
	}
	return err
}

func (j *Job) setAttr(r Remote, c *meta.Change) error {
	if !j.there || j.kind == remote.Link {
		c.Skipped = true
		return nil
	}
	v, err := r.SetAttr(j.place, j.Op.Seq, j.v, j.Op.Mode, j.Op.Mtime)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.Skipped = true
		return nil
	case errors.Is(err, remote.ErrForeign):
		c.Conflict, c.Skipped = true, true
		return nil
	}
	c.V = v
	return err
}
