package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"
)

// Ensure implements Remote: objects need no directory.
func (s *S3) Ensure(string) error { return nil }

// mark gives the directory of a name a marker, so that it stays when the name goes.
func (s *S3) mark(name string) error {
	dir := path.Dir(name)
	if dir == "." {
		return nil
	}
	key := s.below(dir)
	s.mu.Lock()
	o, known := s.dirs[key]
	s.mu.Unlock()
	if known && o.meta != nil {
		return nil
	}
	_, err := s.put(dir, key, metadata(Dir, 0o755, 0, s.volume), nil, replaces(Version{}))
	if err != nil && !errors.Is(err, errCondition) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	remember(s.dirs, key, object{meta: map[string]string{}}) // it is there, whatever its attributes are
	return nil
}

// Mkdir implements Remote.
func (s *S3) Mkdir(name string, mode uint32) error {
	_, err := s.head(name, s.key(name))
	if err == nil {
		return &fs.PathError{Op: "make directory", Path: s.url(name), Err: ErrForeign}
	}
	if !errors.Is(err, errNoObject) {
		return err
	}
	_, err = s.put(name, s.below(name), metadata(Dir, mode, 0, s.volume), nil, replaces(Version{}))
	if errors.Is(err, errCondition) {
		err = nil // it is there
	}
	s.forgetDir(name)
	return err
}

// Rmdir implements Remote.
func (s *S3) Rmdir(name string) error {
	if err := s.empty("remove directory", name); err != nil {
		return err
	}
	if err := s.mark(name); err != nil {
		return err
	}
	s.forgetDir(name)
	return s.delete(name, s.below(name), condition{})
}

// Symlink implements Remote.
func (s *S3) Symlink(target, name string) error {
	if found, err := s.list(name, "", 1); err != nil || len(found) > 0 {
		return orForeign(err, "make link", s.url(name))
	}
	_, err := s.put(name, s.key(name), metadata(Link, 0o777, 0, s.volume), []byte(target), replaces(Version{}))
	if !errors.Is(err, errCondition) {
		return err
	}
	e, err := s.Stat(name)
	if err == nil && e.Kind == Link && e.Target == target {
		return nil
	}
	return orForeign(err, "make link", s.url(name))
}

func orForeign(err error, op, at string) error {
	if err != nil {
		return err
	}
	return &fs.PathError{Op: op, Path: at, Err: ErrForeign}
}

// SetAttr implements Remote: the object is written again, with its content.
func (s *S3) SetAttr(name string, seq uint64, ours Version, mode uint32, mtime int64) (Version, error) {
	token := s.token(seq)
	if ours == dirVersion {
		if now, err := s.Stat(name); err != nil || now.Kind != Dir {
			return Version{}, orForeign(err, "set attributes", s.url(name))
		}
		_, err := s.put(name, s.below(name), metadata(Dir, mode, mtime, token), nil, condition{})
		s.forgetDir(name)
		return dirVersion, err
	}
	o, err := s.head(name, s.key(name))
	switch {
	case err != nil:
		return Version{}, err
	case o.meta[metaToken] == token: // before a crash
		return o.entry.Version, nil
	case o.entry.Version != ours:
		return Version{}, &fs.PathError{Op: "set attributes", Path: s.url(name), Err: ErrForeign}
	}
	v, err := s.copy(name, o, name, metadata(o.entry.Kind, mode, mtime, token), replaces(ours))
	if errors.Is(err, errCondition) {
		now, mine, err := s.known(name, token)
		if err == nil && !mine {
			err = &fs.PathError{Op: "set attributes", Path: s.url(name), Err: ErrForeign}
		}
		return now.entry.Version, err
	}
	return v, err
}

// copySize is the part of an object that the bucket copies at a time, in bytes.
const copySize = 1 << 30

// copy writes the object from again, with other metadata, where a condition holds. The bucket
// copies all but small ones.
func (s *S3) copy(from string, o object, to string, meta map[string]string, when condition) (Version, error) {
	key, size := s.key(from), o.entry.Version.Size
	if size <= small {
		body, err := s.get(from, key, o.entry.Version, 0, size)
		if err != nil {
			return Version{}, err
		}
		return s.put(to, s.key(to), meta, body, when)
	}
	u := &upload{key: s.key(to), meta: meta, c: Content{Size: size}, tags: map[int32]string{}}
	err := s.begin(to, u)
	if err == nil {
		err = s.copyParts(from, o, to, u)
	}
	var v Version
	if err == nil {
		v, err = s.complete(to, u, when)
	}
	if err != nil {
		err = errors.Join(err, s.abort(u))
	}
	return v, err
}

func (s *S3) copyParts(from string, o object, to string, u *upload) error {
	source := s.place.Bucket + "/" + escape(s.key(from))
	length := max(copySize, partLength(u.c.Size))
	for at, number := int64(0), int32(1); at < u.c.Size; at, number = at+length, number+1 {
		err := s.sendPart(to, u, number, func(c *s3.Client) (string, error) {
			out, err := c.UploadPartCopy(s.ctx, &s3.UploadPartCopyInput{
				Bucket: &s.place.Bucket, Key: &u.key, UploadId: &u.id, PartNumber: &number, CopySource: &source, CopySourceIfMatch: &o.entry.Version.Tag,
				CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", at, min(at+length, u.c.Size)-1)),
			})
			if err != nil || out.CopyPartResult == nil {
				return "", err
			}
			return aws.ToString(out.CopyPartResult.ETag), nil
		})
		if errors.Is(err, errCondition) {
			err = &fs.PathError{Op: "copy", Path: s.url(from), Err: fs.ErrClosed}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// escape writes a key as the header of a copy wants it.
func escape(key string) string {
	var b strings.Builder
	for _, c := range []byte(key) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~/", c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// Move implements Remote: the object is copied, and then removed at its old name. What another user
// has put there meanwhile is moved or stays.
func (s *S3) Move(from, to string, seq uint64, ours, expect Version) (Version, error) {
	token := s.token(seq)
	o, err := s.head(from, s.key(from))
	if errors.Is(err, errNoObject) {
		now, mine, kerr := s.known(to, token)
		if mine || kerr != nil && !errors.Is(kerr, errNoObject) { // before a crash
			return now.entry.Version, kerr
		}
		return Version{}, err
	}
	if err != nil {
		return Version{}, err
	}
	if expect.None() {
		if found, err := s.list(to, "", 1); err != nil || len(found) > 0 {
			return Version{}, orForeign(err, "move", s.url(to))
		}
	}
	v, of, err := s.copied(from, o, to, token, expect)
	if err != nil {
		return Version{}, err
	}
	if err := s.mark(from); err != nil {
		return Version{}, err
	}
	if err := s.deleteVersion(from, s.key(from), of); err != nil {
		return Version{}, err
	}
	if of != ours.Tag {
		v = ours // so that it is seen to be another one
	}
	return v, nil
}

// deleteVersion deletes the object of a version. What another user has written since stays.
func (s *S3) deleteVersion(name, key, tag string) error {
	if tag == "" {
		return nil
	}
	err := s.delete(name, key, condition{match: &tag})
	if errors.Is(err, errCondition) {
		err = nil
	}
	return err
}

// copied copies an object to a name where the version expect is now, unless it is there. It returns
// the tag of the version that was copied, too: by an earlier try that may have been another one.
func (s *S3) copied(from string, o object, to, token string, expect Version) (v Version, of string, err error) {
	meta := maps.Clone(o.meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[metaToken], meta[metaFrom] = token, url.PathEscape(o.entry.Version.Tag)
	if meta[metaMtime] == "" {
		meta[metaMtime] = timeText(o.entry.Mtime)
	}
	v, err = s.copy(from, o, to, meta, replaces(expect))
	if errors.Is(err, errCondition) {
		now, mine, err := s.known(to, token)
		if err == nil && !mine || errors.Is(err, errNoObject) {
			err = &fs.PathError{Op: "move", Path: s.url(to), Err: ErrForeign}
		}
		if err == nil {
			of, err = url.PathUnescape(now.meta[metaFrom])
		}
		return now.entry.Version, of, err
	}
	return v, o.entry.Version.Tag, err
}

// MoveDir implements Remote: everything in it is copied, and then all of it is removed at its
// old place.
func (s *S3) MoveDir(from, to string, seq uint64, _ Version, _ bool) (map[string]Version, error) {
	token := s.token(seq)
	marker, err := s.head(to, s.below(to))
	if err != nil && !errors.Is(err, errNoObject) {
		return nil, err
	}
	begun := err == nil && marker.meta[metaToken] == token
	if !begun {
		if err := s.vacant(to); err != nil {
			return nil, err
		}
	}
	all, err := s.list(from, "", 0)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 && !begun {
		return nil, &fs.PathError{Op: "move", Path: s.url(from), Err: errNoObject}
	}
	all = slices.DeleteFunc(all, func(f listed) bool { return !movable(f) })
	s.setMoving(token)
	if !begun {
		meta := metadata(Dir, 0o755, 0, token)
		if there, err := s.head(from, s.below(from)); err == nil {
			meta = metadata(Dir, there.entry.Mode, 0, token)
		} else if !errors.Is(err, errNoObject) {
			return nil, err
		}
		if _, err := s.put(to, s.below(to), meta, nil, condition{}); err != nil {
			return nil, err
		}
	}
	if err := s.copyAll(from, to, token, all); err != nil {
		return nil, err
	}
	if err := s.deleteAll(from, all); err != nil {
		return nil, err
	}
	s.mu.Lock()
	clear(s.dirs)
	s.mu.Unlock()
	versions, err := s.movedTo(to, token)
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

func (s *S3) setMoving(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.moving = token
}

// vacant reports as ErrForeign what is at a name, other than an empty directory.
func (s *S3) vacant(name string) error {
	if _, err := s.head(name, s.key(name)); !errors.Is(err, errNoObject) {
		return orForeign(err, "move", s.url(name))
	}
	return s.empty("move", name)
}

// empty reports as ErrForeign what is in a directory.
func (s *S3) empty(op, dir string) error {
	found, err := s.list(dir, "", 2)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.name != "" {
			return &fs.PathError{Op: op, Path: s.url(dir), Err: ErrForeign}
		}
	}
	return nil
}

// copyAll copies all objects below a directory, and notes in the list which versions were copied.
func (s *S3) copyAll(from, to, token string, all []listed) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, f := range all {
		if f.name == "" {
			continue
		}
		g.Go(func() (err error) {
			all[i].tag, err = s.copyBelow(from, to, f.name, token)
			return err
		})
	}
	return g.Wait()
}

// copyBelow copies one object below a directory to the same place below another. It returns the tag
// of the version that was copied; "" of a marker.
func (s *S3) copyBelow(from, to, name, token string) (of string, err error) {
	if dir, is := strings.CutSuffix(name, "/"); is {
		o, err := s.head(path.Join(from, dir), s.below(from)+name)
		if err != nil {
			return "", err
		}
		_, err = s.put(path.Join(to, dir), s.below(to)+name, o.meta, nil, replaces(Version{}))
		if errors.Is(err, errCondition) {
			err = nil
		}
		return "", err
	}
	o, err := s.head(path.Join(from, name), s.key(path.Join(from, name)))
	if err != nil {
		return "", err
	}
	store := func(place string) (err error) {
		_, of, err = s.copied(path.Join(from, name), o, place, token, Version{})
		return err
	}
	place := path.Join(to, name)
	err = store(place)
	if errors.Is(err, ErrForeign) { // another user writes there
		err = Beside(path.Base(place), s.volume, func(name string) error { return store(path.Join(path.Dir(place), name)) })
	}
	return of, err
}

func (s *S3) deleteAll(dir string, all []listed) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range all {
		g.Go(func() error {
			key := s.below(dir) + f.name
			if f.name == "" || strings.HasSuffix(f.name, "/") {
				return s.delete(dir, key, condition{})
			}
			return s.deleteVersion(dir, key, f.tag)
		})
	}
	return g.Wait()
}

// movedTo gives the versions of what a change has moved below a directory.
func (s *S3) movedTo(dir, token string) (map[string]Version, error) {
	all, err := s.list(dir, "", 0)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	versions := map[string]Version{}
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range all {
		if f.name == "" || strings.HasSuffix(f.name, "/") || !movable(f) {
			continue
		}
		g.Go(func() error {
			name := path.Join(dir, f.name)
			o, mine, err := s.known(name, token)
			if errors.Is(err, errNoObject) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			if mine {
				versions[f.name] = o.entry.Version
			}
			return err
		})
	}
	return versions, g.Wait()
}

// Record implements Remote.
func (s *S3) Record() ([]byte, error) {
	o, err := s.head(RecordName, s.key(RecordName))
	if err != nil {
		return nil, err
	}
	return s.get(RecordName, s.key(RecordName), o.entry.Version, 0, min(o.entry.Version.Size, mostRecord))
}

// RecordPath implements Remote.
func (s *S3) RecordPath() string { return s.url(RecordName) }

// RemoveRecord implements Remote. Notes of uploads go with it, and so do those uploads before.
func (s *S3) RemoveRecord() error {
	if err := s.abortNoted(""); s.ctx.Err() != nil {
		return context.Canceled
	} else if err != nil {
		return Away(err)
	}
	return s.delete(RecordName, s.key(RecordName), condition{})
}

// SetRecord implements Remote. The first write is preceded by a look whether the bucket applies
// conditions.
func (s *S3) SetRecord(raw []byte) error {
	if err := s.conditional(); err != nil {
		return err
	}
	_, err := s.put(RecordName, s.key(RecordName), map[string]string{}, raw, replaces(Version{}))
	if errors.Is(err, errCondition) {
		err = &fs.PathError{Op: "write", Path: s.url(RecordName), Err: fs.ErrExist}
	}
	return err
}
