package remote

import (
	"context"
	"errors"
	"io/fs"
)

// Write implements Remote. Parts are sent, and of a small file nothing yet.
func (s *S3) Write(ctx context.Context, name string, _ uint64, c Content) (string, Version, error) {
	token := s.token(c.Seq)
	v := Version{Tag: token, Size: c.Size}
	if err := s.uploads.abortNoted(token); err != nil {
		return token, v, err
	}
	u := s.uploads.current
	if u == nil || u.token != token || u.key != s.bucket.key(name) {
		u = &upload{token: token, key: s.bucket.key(name), meta: metadata(File, c.Mode, c.Mtime, token), c: c, tags: map[int32]string{}}
		s.uploads.current = u
	}
	u.c = c
	if c.Size <= small {
		return token, v, nil
	}
	return token, v, s.uploads.sendParts(ctx, name, u)
}

// Discard implements Remote.
func (s *S3) Discard(string, uint64) error {
	return s.uploads.abortNoted("")
}

// Publish implements Remote. The version is known by its token, here and in the metadata of
// what an earlier process has published.
func (s *S3) Publish(token, name string, _, expect Version) (Version, error) {
	v, err := s.publish(token, name, expect)
	if err == nil {
		if u := s.uploads.current; u != nil && u.token == token {
			s.attributes.published(name, v, u.meta)
		}
		s.uploads.current = nil
	}
	return v, err
}

// publish is Publish, and leaves the upload as it is.
func (s *S3) publish(token, name string, expect Version) (Version, error) {
	foreign := &fs.PathError{Op: "publish", Path: s.bucket.url(name), Err: ErrForeign}
	if expect.None() {
		if found, err := s.bucket.list(name, "", 1); err != nil || len(found) > 0 {
			return Version{}, orForeign(err, "publish", s.bucket.url(name))
		}
	}
	sent := s.uploads.current != nil && s.uploads.current.token == token
	if sent {
		v, err := s.uploads.finish(s.uploads.current, name, expect)
		if !errors.Is(err, errCondition) {
			return v, err
		}
		sent = s.uploads.current != nil
	}
	o, mine, err := s.bucket.known(name, token)
	switch {
	case mine || err != nil && !errors.Is(err, errNoObject):
		return o.entry.Version, err
	case err != nil && !expect.None(): // what it was to replace is gone
		return Version{}, foreign
	case err != nil || !sent && o.entry.Version == expect: // it has to be sent again
		return Version{}, &fs.PathError{Op: "publish", Path: s.bucket.url(name), Err: errNoObject}
	}
	return Version{}, foreign
}

// Remove implements Remote.
func (s *S3) Remove(name string, _ uint64, expect Version) error {
	if err := s.attributes.mark(name); err != nil {
		return err
	}
	err := s.bucket.delete(name, s.bucket.key(name), replaces(expect))
	if errors.Is(err, errCondition) {
		err = &fs.PathError{Op: "remove", Path: s.bucket.url(name), Err: ErrForeign}
	}
	return err
}
