package remote

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"
)

// Stat implements Remote. A file hides a directory of its name nowhere: the directory counts.
func (s *S3) Stat(name string) (Entry, error) {
	if name == "." {
		return s.attributes.dirEntry(name)
	}
	var file object
	var ferr error
	var all sync.WaitGroup
	all.Go(func() { file, ferr = s.bucket.head(name, s.bucket.key(name)) })
	first, err := s.bucket.list(name, "", 1)
	all.Wait()
	if err != nil {
		return Entry{}, err
	}
	if len(first) > 0 {
		return s.attributes.dirEntry(name)
	}
	return file.entry, ferr
}

// atOnce is how many requests are made at a time, where there are many.
const atOnce = 32

// List implements Remote. The directory must be there: an empty list is of one with a marker.
func (s *S3) List(dir string) ([]Entry, error) {
	found, err := s.plain(dir, 0)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, f := range found {
		g.Go(func() (err error) {
			name, isDir := strings.CutSuffix(f.name, "/")
			full := path.Join(dir, name)
			if isDir {
				entries[i], err = s.attributes.dirEntry(full)
			} else {
				entries[i], err = s.attributes.file(full, f)
			}
			if errors.Is(err, errNoObject) {
				return nil // it was removed meanwhile
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.Kind == 0 }), nil
}

// Glance implements Remote.
func (s *S3) Glance(dir string, most int) ([]Entry, error) {
	found, err := s.plain(dir, most)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(found))
	for i, f := range found {
		entries[i] = s.attributes.remembered(dir, f)
	}
	return entries, nil
}

// plain lists what has a name of a file in a directory; most: of one with up to so many objects. 0: with any number.
func (s *S3) plain(dir string, most int) ([]listed, error) {
	bound := int32(0)
	if most > 0 {
		bound = int32(min(most, mostListed)) + 1 // far below the largest one
	}
	found, err := s.bucket.list(dir, "/", bound)
	if err != nil {
		return nil, err
	}
	if most > 0 && len(found) > most {
		return nil, &fs.PathError{Op: "list", Path: s.bucket.url(dir), Err: ErrLarge}
	}
	if len(found) == 0 && dir != "." {
		return nil, &fs.PathError{Op: "list", Path: s.bucket.url(dir), Err: errNoObject}
	}
	isDir := map[string]bool{}
	for _, f := range found {
		if name, is := strings.CutSuffix(f.name, "/"); is {
			isDir[name] = true
		}
	}
	return slices.DeleteFunc(found, func(f listed) bool {
		name, dirToo := strings.CutSuffix(f.name, "/")
		return !Plain(name) || !utf8.ValidString(name) || Hidden(name, dir == ".") || !dirToo && isDir[name]
	}), nil
}

// source is a file of a bucket that is being read.
type source struct {
	bucket    *bucket
	name, key string
	version   Version
}

// Open implements Remote.
func (s *S3) Open(name string) (Source, error) {
	o, err := s.bucket.head(name, s.bucket.key(name))
	if err != nil {
		return nil, err
	}
	return &source{s.bucket, name, s.bucket.key(name), o.entry.Version}, nil
}

// Known implements Remote: each request names the version that it is about.
func (s *S3) Known(name string, v Version) Source {
	return &source{s.bucket, name, s.bucket.key(name), v}
}

// Version implements Source.
func (f *source) Version() Version { return f.version }

// Now implements Source: what was read is of the version that was opened.
func (f *source) Now() (Version, error) { return f.version, nil }

// Read implements Source.
func (f *source) Read(ctx context.Context, p []byte, off int64) (int, error) {
	length := min(int64(len(p)), f.version.Size-off)
	if length <= 0 {
		return 0, nil
	}
	got, err := f.bucket.get(f.name, f.key, f.version, off, length)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return copy(p, got), err
}

// Close implements Source.
func (f *source) Close() error { return nil }
