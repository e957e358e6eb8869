package remote

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
)

// Ensure implements Remote: objects need no directory.
func (s *S3) Ensure(string) error { return nil }

// Mkdir implements Remote.
func (s *S3) Mkdir(name string, mode uint32) error {
	_, err := s.bucket.head(name, s.bucket.key(name))
	if err == nil {
		return &fs.PathError{Op: "make directory", Path: s.bucket.url(name), Err: ErrForeign}
	}
	if !errors.Is(err, errNoObject) {
		return err
	}
	_, err = s.bucket.put(name, s.bucket.below(name), metadata(Dir, mode, 0, s.volume), nil, replaces(Version{}))
	if errors.Is(err, errCondition) {
		err = nil // it is there
	}
	s.attributes.forgetDir(name)
	return err
}

// Rmdir implements Remote.
func (s *S3) Rmdir(name string) error {
	if err := s.bucket.empty("remove directory", name); err != nil {
		return err
	}
	if err := s.attributes.mark(name); err != nil {
		return err
	}
	s.attributes.forgetDir(name)
	return s.bucket.delete(name, s.bucket.below(name), condition{})
}

// Symlink implements Remote.
func (s *S3) Symlink(target, name string) error {
	if found, err := s.bucket.list(name, "", 1); err != nil || len(found) > 0 {
		return orForeign(err, "make link", s.bucket.url(name))
	}
	_, err := s.bucket.put(name, s.bucket.key(name), metadata(Link, 0o777, 0, s.volume), []byte(target), replaces(Version{}))
	if !errors.Is(err, errCondition) {
		return err
	}
	e, err := s.Stat(name)
	if err == nil && e.Kind == Link && e.Target == target {
		return nil
	}
	return orForeign(err, "make link", s.bucket.url(name))
}

// SetAttr implements Remote: the object is written again, with its content.
func (s *S3) SetAttr(name string, seq uint64, ours Version, mode uint32, mtime int64) (Version, error) {
	token := s.token(seq)
	if ours == dirVersion {
		if now, err := s.Stat(name); err != nil || now.Kind != Dir {
			return Version{}, orForeign(err, "set attributes", s.bucket.url(name))
		}
		_, err := s.bucket.put(name, s.bucket.below(name), metadata(Dir, mode, mtime, token), nil, condition{})
		s.attributes.forgetDir(name)
		return dirVersion, err
	}
	o, err := s.bucket.head(name, s.bucket.key(name))
	switch {
	case err != nil:
		return Version{}, err
	case o.meta[metaToken] == token: // before a crash
		return o.entry.Version, nil
	case o.entry.Version != ours:
		return Version{}, &fs.PathError{Op: "set attributes", Path: s.bucket.url(name), Err: ErrForeign}
	}
	v, err := s.copier.copy(name, o, name, metadata(o.entry.Kind, mode, mtime, token), replaces(ours))
	if errors.Is(err, errCondition) {
		now, mine, err := s.bucket.known(name, token)
		if err == nil && !mine {
			err = &fs.PathError{Op: "set attributes", Path: s.bucket.url(name), Err: ErrForeign}
		}
		return now.entry.Version, err
	}
	return v, err
}

// Move implements Remote: the object is copied, and then removed at its old name. What another user
// has put there meanwhile is moved or stays.
func (s *S3) Move(from, to string, seq uint64, ours, expect Version) (Version, error) {
	token := s.token(seq)
	o, err := s.bucket.head(from, s.bucket.key(from))
	if errors.Is(err, errNoObject) {
		now, mine, kerr := s.bucket.known(to, token)
		if mine || kerr != nil && !errors.Is(kerr, errNoObject) { // before a crash
			return now.entry.Version, kerr
		}
		return Version{}, err
	}
	if err != nil {
		return Version{}, err
	}
	if expect.None() {
		if found, err := s.bucket.list(to, "", 1); err != nil || len(found) > 0 {
			return Version{}, orForeign(err, "move", s.bucket.url(to))
		}
	}
	v, of, err := s.copier.copied(from, o, to, token, expect)
	if err != nil {
		return Version{}, err
	}
	if err := s.attributes.mark(from); err != nil {
		return Version{}, err
	}
	if err := s.bucket.deleteVersion(from, s.bucket.key(from), of); err != nil {
		return Version{}, err
	}
	if of != ours.Tag {
		v = ours // so that it is seen to be another one
	}
	return v, nil
}

// MoveDir implements Remote: everything in it is copied, and then all of it is removed at its
// old place.
func (s *S3) MoveDir(from, to string, seq uint64, _ Version, _ bool) (map[string]Version, error) {
	token := s.token(seq)
	marker, err := s.bucket.head(to, s.bucket.below(to))
	if err != nil && !errors.Is(err, errNoObject) {
		return nil, err
	}
	begun := err == nil && marker.meta[metaToken] == token
	if !begun {
		if err := s.bucket.vacant(to); err != nil {
			return nil, err
		}
	}
	all, err := s.bucket.list(from, "", 0)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && !begun {
		return nil, &fs.PathError{Op: "move", Path: s.bucket.url(from), Err: errNoObject}
	}
	all = slices.DeleteFunc(all, func(f listed) bool { return !movable(f) })
	s.setMoving(token)
	if !begun {
		meta := metadata(Dir, 0o755, 0, token)
		if there, err := s.bucket.head(from, s.bucket.below(from)); err == nil {
			meta = metadata(Dir, there.entry.Mode, 0, token)
		} else if !errors.Is(err, errNoObject) {
			return nil, err
		}
		if _, err := s.bucket.put(to, s.bucket.below(to), meta, nil, condition{}); err != nil {
			return nil, err
		}
	}
	if err := s.copier.copyAll(from, to, token, all); err != nil {
		return nil, err
	}
	if err := s.copier.deleteAll(from, all); err != nil {
		return nil, err
	}
	s.attributes.forgetDirs()
	versions, err := s.copier.movedTo(to, token)
	if err == nil {
		s.setMoving("")
	}
	return versions, err
}

// movable reports whether an object below a directory is a file that has a path, or a marker. Others
// stay where they are.
func movable(f listed) bool {
	name, dir := strings.CutSuffix(f.name, "/")
	if f.name == "" || dir && f.size > 0 { // the first is the marker of the directory itself
		return f.name == "" && f.size == 0
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || strings.Contains(part, "\x00") {
			return false
		}
	}
	return true
}

// Moving implements Remote.
func (s *S3) Moving(seq uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.moving == s.token(seq)
}

// setMoving notes which change moves objects; "": none does.
func (s *S3) setMoving(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moving = token
}

func orForeign(err error, op, at string) error {
	if err != nil {
		return err
	}
	return &fs.PathError{Op: op, Path: at, Err: ErrForeign}
}
