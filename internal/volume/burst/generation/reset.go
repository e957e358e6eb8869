package generation

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/volume/burst/drain"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Conflict is a name that another program has changed since a generation.
type Conflict struct {
	Path string
	// As is the name beside it at which what belongs to the generation is; "": nothing does.
	As string
}

// reset restores a generation on the remote, from the newest one on.
func (g *Generations) reset(numbers []int, to int) (conflicts []Conflict, err error) {
	for _, n := range slices.Backward(numbers) {
		if n < to {
			break
		}
		notes, err := g.notesOf(n)
		if err != nil {
			return nil, err
		}
		more, err := g.restore(n, notes)
		if err != nil {
			return nil, err
		}
		conflicts = append(conflicts, more...)
		if n > to {
			err = g.removeDir(dirOf(n))
		} else {
			err = g.forget(n)
		}
		if err != nil {
			return nil, err
		}
	}
	g.now, g.notes = to, nil
	return conflicts, nil
}

// forget removes what was noted after a generation: the remote is as it was then. Notes go before the
// files that they are about.
func (g *Generations) forget(number int) error {
	entries, err := g.remote.List(dirOf(number))
	if err != nil {
		return err
	}
	for _, suffix := range []string{noteSuffix, dataSuffix} {
		for _, e := range entries {
			if e.Name == markerName || !strings.HasSuffix(e.Name, suffix) {
				continue
			}
			name := path.Join(dirOf(number), e.Name)
			if err := g.remote.Remove(name, inoOf(name), e.Version); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// restore restores all names that were noted. It may be called again after a crash.
func (g *Generations) restore(number int, notes map[string]*note) (conflicts []Conflict, err error) {
	names := slices.Sorted(maps.Keys(notes)) // a directory comes before what is in it
	for _, name := range slices.Backward(names) {
		foreign, err := g.clear(name, notes[name])
		if err != nil {
			return nil, err
		}
		if foreign && notes[name].Was.Kind == 0 {
			conflicts = append(conflicts, Conflict{Path: name})
		}
	}
	for _, name := range names {
		as, err := g.bring(number, name, notes[name])
		if err != nil {
			return nil, err
		}
		if as != name {
			conflicts = append(conflicts, Conflict{Path: name, As: as})
		}
	}
	return conflicts, nil
}

// ours reports whether the volume has put there what is at a name now.
func (n *note) ours(now drain.Thing) bool {
	return n.Was.Is(now) || slices.ContainsFunc(n.Ours, func(t drain.Thing) bool { return t.Is(now) })
}

// clear removes what the volume has put at a name at which there was something of another kind, or
// nothing. What others have put there stays: foreign.
func (g *Generations) clear(name string, n *note) (foreign bool, err error) {
	e, err := g.remote.Stat(name)
	if absent(err) {
		return false, g.finish(name, n)
	}
	if err != nil || e.Kind == n.Was.Kind {
		return false, err
	}
	now := drain.ThingOf(e)
	if !n.ours(now) {
		return true, nil
	}
	if e.Kind == remote.Dir {
		err = g.remote.Rmdir(name)
	} else {
		err = g.remote.Remove(name, inoOf(name), e.Version)
	}
	if errors.Is(err, remote.ErrForeign) { // a directory with files that belong to no checkpoint stays, too
		return e.Kind != remote.Dir || n.Was.Kind != 0, nil
	}
	return false, err
}

// finish removes what a crash has left of a removal.
func (g *Generations) finish(name string, n *note) error {
	for _, t := range n.Ours {
		if t.Kind != remote.File || n.Was.Kind == remote.File {
			continue
		}
		if err := g.remote.Remove(name, inoOf(name), t.Version); err != nil && !absent(err) && !errors.Is(err, remote.ErrForeign) {
			return err
		}
	}
	return nil
}

// absent reports whether nothing can be at a name, as one above it is no directory.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) || errors.Is(err, fsutil.ErrNotPlain)
}

// bring restores what was at a name. It returns the name at which it is.
func (g *Generations) bring(number int, name string, n *note) (as string, err error) {
	if n.Was.Kind == 0 {
		return name, nil
	}
	if err := g.remote.Ensure(path.Dir(name)); err != nil {
		return name, err
	}
	e, err := g.remote.Stat(name)
	free := absent(err)
	if err != nil && !free {
		return name, err
	}
	switch n.Was.Kind {
	case remote.Dir:
		if free {
			err = g.remote.Mkdir(name, n.Was.Mode)
		} else if e.Kind == remote.Dir && e.Mode != n.Was.Mode {
			_, err = g.remote.SetAttr(name, 0, e.Version, n.Was.Mode, e.Mtime)
		} else {
			err = nil
		}
		return name, err
	case remote.Link:
		return g.bringLink(name, n, e, free)
	}
	return g.bringFile(number, name, n)
}

func (g *Generations) bringLink(name string, n *note, e remote.Entry, free bool) (string, error) {
	switch now := drain.ThingOf(e); {
	case free:
	case n.Was.Is(now):
		return name, nil
	case n.ours(now):
		if err := g.remote.Remove(name, inoOf(name), e.Version); err != nil {
			return name, err
		}
	default:
		return g.beside(name, func(other string) error { return g.remote.Symlink(n.Was.Target, other) })
	}
	return name, g.remote.Symlink(n.Was.Target, name)
}

func (g *Generations) bringFile(number int, name string, n *note) (string, error) {
	data := dataOf(noteOf(number, name))
	k, err := g.remote.Stat(data)
	if absent(err) { // it was restored before a crash
		e, err := g.remote.Stat(name)
		if now := drain.ThingOf(e); err == nil && !n.Was.Is(now) && n.ours(now) {
			return name, &core.Error{
				Kind: core.Permanent, Op: "restore", Object: name, Err: fmt.Errorf("checkpoint %d has lost %s, which is its content", number, data),
				Remedy: "Restore that on the remote, or run the job again.",
			}
		}
		return name, nil
	}
	v := k.Version
	if err == nil && (k.Mode != n.Was.Mode || k.Mtime != n.Was.Mtime) { // they were set after it was kept
		v, err = g.remote.SetAttr(data, 0, v, n.Was.Mode, n.Was.Mtime)
	}
	if err != nil {
		return name, err
	}
	e, err := g.remote.Stat(name)
	switch now := drain.ThingOf(e); {
	case absent(err):
		_, err = g.remote.Move(data, name, 0, v, remote.Version{})
	case err != nil, now.Version == v: // it is the same file
	case e.Kind == remote.File && (k.Version == now.Version || n.ours(now)):
		_, err = g.remote.Move(data, name, 0, v, e.Version)
	default:
		return g.beside(name, func(other string) error {
			_, err := g.remote.Move(data, other, 0, v, remote.Version{})
			return err
		})
	}
	return name, err
}

// beside stores what must not replace another program's at the first free name of conflicts.
func (g *Generations) beside(name string, store func(name string) error) (as string, err error) {
	err = remote.Beside(path.Base(name), g.run, func(other string) error {
		as = path.Join(path.Dir(name), other)
		return store(as)
	})
	return as, err
}
