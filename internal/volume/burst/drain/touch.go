package drain

import (
	"errors"
	"io/fs"
	"path"

	"github.com/bee-hpc/bee/internal/volume/burst/meta"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
)

// Thing is what is at a name of a remote.
type Thing struct {
	Kind    remote.Kind    `json:"kind,omitempty"` // 0: nothing
	Mode    uint32         `json:"mode,omitempty"`
	Mtime   int64          `json:"mtime,omitempty"`
	Target  string         `json:"target,omitempty"`
	Version remote.Version `json:"version"` // of a file
}

// Touch is a name of a remote that an operation changes, and what will be there.
type Touch struct {
	Path string
	Will Thing
}

// Touches lists the names that the operation changes. Of a Put that is known once Prepare has sent it.
// list lists a directory of the remote. What was carried out before a crash was listed before.
func (j *Job) Touches(list func(dir string) ([]remote.Entry, error)) ([]Touch, error) {
	at := func() string { return path.Join(j.dir, j.Op.Name) }
	nothing := func(name string) Touch { return Touch{Path: name} }
	switch j.Op.Kind {
	case meta.Put:
		to := at()
		if j.there {
			to = j.place
		}
		if j.unsent || !j.there && j.dir == "" {
			return nil, nil
		}
		return []Touch{{to, Thing{Kind: remote.File, Mode: j.Op.Mode, Mtime: j.Op.Mtime, Version: j.Op.Begun}}}, nil
	case meta.Mkdir:
		return []Touch{{at(), Thing{Kind: remote.Dir, Mode: j.Op.Mode}}}, nil
	case meta.Symlink:
		return []Touch{{at(), Thing{Kind: remote.Link, Target: j.target}}}, nil
	case meta.Rename:
		if !j.there || j.dir == "" {
			return nil, nil
		}
		touches := []Touch{nothing(j.place), {at(), Thing{Kind: j.kind, Target: j.target, Version: j.v}}}
		if j.old != nil && j.old.place != at() {
			touches = append(touches, nothing(j.old.place))
		}
		if j.kind == remote.Dir {
			return below(list, touches, j.place, at())
		}
		return touches, nil
	case meta.Unlink, meta.Rmdir:
		if j.there {
			return []Touch{nothing(j.place)}, nil
		}
	case meta.SetAttr:
		if j.there && j.kind != remote.Link {
			v := j.v
			if j.kind == remote.File {
				v.Mtime = j.Op.Mtime
			}
			return []Touch{{j.place, Thing{Kind: j.kind, Mode: j.Op.Mode, Mtime: j.Op.Mtime, Version: v}}}, nil
		}
	}
	return nil, nil
}

// below adds what is in a directory that is moved, at its old place and at its new one.
func below(list func(string) ([]remote.Entry, error), touches []Touch, from, to string) ([]Touch, error) {
	entries, err := list(from)
	if errors.Is(err, fs.ErrNotExist) {
		return touches, nil
	}
	for _, e := range entries {
		old, now := path.Join(from, e.Name), path.Join(to, e.Name)
		touches = append(touches, Touch{Path: old}, Touch{now, ThingOf(e)})
		if err == nil && e.Kind == remote.Dir {
			touches, err = below(list, touches, old, now)
		}
	}
	return touches, err
}

// ThingOf describes an entry.
func ThingOf(e remote.Entry) Thing {
	t := Thing{Kind: e.Kind, Mode: e.Mode, Mtime: e.Mtime, Target: e.Target}
	if e.Kind == remote.File {
		t.Version = e.Version
	}
	return t
}

// Is reports whether a thing at a name is another one that was put there: a file of the same version, the
// same link, or a directory.
func (t Thing) Is(other Thing) bool {
	switch {
	case t.Kind != other.Kind:
		return false
	case t.Kind == remote.Link:
		return t.Target == other.Target
	case t.Kind == remote.File:
		return t.Version == other.Version
	}
	return true
}
