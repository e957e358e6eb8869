package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"path"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/bee-hpc/bee/internal/core"
	"golang.org/x/sync/errgroup"
)

// get reads bytes of the object of a version. The error is fs.ErrClosed where that is gone.
func (s *S3) get(name, key string, v Version, from, length int64) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	p := make([]byte, length)
	got := 0
	err := s.call("read", name, func(c *s3.Client) error {
		out, err := c.GetObject(s.ctx, &s3.GetObjectInput{Bucket: &s.place.Bucket, Key: &key, IfMatch: &v.Tag, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, from+length-1))})
		if err != nil {
			return err
		}
		defer out.Body.Close()
		got, err = io.ReadFull(out.Body, p)
		if errors.Is(err, io.ErrUnexpectedEOF) && from+int64(got) == v.Size {
			err = nil
		}
		return err
	})
	if errors.Is(err, errCondition) || errors.Is(err, errNoObject) {
		err = &fs.PathError{Op: "read", Path: s.url(name), Err: fs.ErrClosed}
	}
	return p[:got], err
}

// Stat implements Remote. A file hides a directory of its name nowhere: the directory counts.
func (s *S3) Stat(name string) (Entry, error) {
	if name == "." {
		return s.dirEntry(name)
	}
	var file object
	var ferr error
	var all sync.WaitGroup
	all.Go(func() { file, ferr = s.head(name, s.key(name)) })
	first, err := s.list(name, "", 1)
	all.Wait()
	if err != nil {
		return Entry{}, err
	}
	if len(first) > 0 {
		return s.dirEntry(name)
	}
	return file.entry, ferr
}

// dirEntry describes a directory, by its marker if there is one.
func (s *S3) dirEntry(name string) (Entry, error) {
	key := s.below(name)
	s.mu.Lock()
	o, known := s.dirs[key]
	s.mu.Unlock()
	if known && time.Since(o.at) < s.Traits().Fresh {
		return o.entry, nil
	}
	o = object{entry: describeObject(name, true, 0, "", time.Unix(0, 0), nil)}
	if key != "" {
		there, err := s.head(name, key)
		if err == nil {
			o = there
		} else if !errors.Is(err, errNoObject) {
			return Entry{}, err
		}
	}
	o.at = time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	remember(s.dirs, key, o)
	return o.entry, nil
}

// mostRemembered bounds what is remembered of objects.
const mostRemembered = 1 << 17

func remember(m map[string]object, key string, o object) {
	if len(m) >= mostRemembered {
		clear(m)
	}
	m[key] = o
}

// forgetDir drops what is remembered of a directory.
func (s *S3) forgetDir(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.dirs, s.below(name))
}

// listed is an object or a common beginning of several, as a list has it.
type listed struct {
	name string // relative to the directory; that of a directory ends with a slash
	size int64
	tag  string
	at   time.Time
}

// mostListed bounds a list.
const mostListed = 1 << 20

// list gives what is below a directory: with the delimiter "/" what is in it, else all. most
// bounds it; 0: mostListed does.
func (s *S3) list(dir, delimiter string, most int32) ([]listed, error) {
	var list []listed
	below := s.below(dir)
	in := &s3.ListObjectsV2Input{Bucket: &s.place.Bucket, Prefix: &below, EncodingType: types.EncodingTypeUrl}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	if most > 0 {
		in.MaxKeys = &most
	}
	for {
		var out *s3.ListObjectsV2Output
		err := s.call("list", dir, func(c *s3.Client) (err error) {
			out, err = c.ListObjectsV2(s.ctx, in)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, p := range out.CommonPrefixes {
			if rest, is := strings.CutPrefix(plainKey(out, p.Prefix), below); is {
				list = append(list, listed{name: rest})
			}
		}
		for _, o := range out.Contents {
			if rest, is := strings.CutPrefix(plainKey(out, o.Key), below); is {
				list = append(list, listed{rest, aws.ToInt64(o.Size), aws.ToString(o.ETag), aws.ToTime(o.LastModified)})
			}
		}
		in.ContinuationToken = out.NextContinuationToken
		if !aws.ToBool(out.IsTruncated) || in.ContinuationToken == nil || most > 0 {
			return list, nil
		}
		if len(list) > mostListed {
			return nil, &core.Error{Kind: core.Permanent, Op: "list", Object: s.url(dir), Err: fmt.Errorf("it has more than %d objects", mostListed), Remedy: "Use a prefix with fewer of them."}
		}
	}
}

// plainKey gives a key of a list. XML has no control characters, so that a server is asked to escape
// keys; not every server does.
func plainKey(out *s3.ListObjectsV2Output, key *string) string {
	text := aws.ToString(key)
	if out.EncodingType == types.EncodingTypeUrl {
		if raw, err := url.QueryUnescape(text); err == nil {
			return raw
		}
	}
	return text
}

// atOnce is how many requests are made at a time, where there are many.
const atOnce = 32

// List implements Remote. The directory must be there: an empty list is of one with a marker.
func (s *S3) List(dir string) ([]Entry, error) {
	found, err := s.list(dir, "/", 0)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && dir != "." {
		return nil, &fs.PathError{Op: "list", Path: s.url(dir), Err: errNoObject}
	}
	isDir := map[string]bool{}
	for _, f := range found {
		if name, is := strings.CutSuffix(f.name, "/"); is {
			isDir[name] = true
		}
	}
	entries := make([]Entry, len(found))
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, f := range found {
		name, dirToo := strings.CutSuffix(f.name, "/")
		if !Plain(name) || !utf8.ValidString(name) || Hidden(name, dir == ".") || !dirToo && isDir[name] {
			continue
		}
		g.Go(func() (err error) {
			full := path.Join(dir, name)
			if dirToo {
				entries[i], err = s.dirEntry(full)
			} else {
				entries[i], err = s.file(full, f)
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
	list := entries[:0]
	for _, e := range entries {
		if e.Kind != 0 {
			list = append(list, e)
		}
	}
	return list, nil
}

// file describes a file that was listed.
func (s *S3) file(name string, f listed) (Entry, error) {
	key := s.key(name)
	s.mu.Lock()
	o, known := s.seen[key]
	s.mu.Unlock()
	if known && o.entry.Version == (Version{Tag: f.tag, Size: f.size}) && o.at.Equal(f.at) {
		return o.entry, nil
	}
	o, err := s.head(name, key)
	if err != nil {
		return Entry{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	remember(s.seen, key, o)
	return o.entry, nil
}

// source is a file of a bucket that is being read.
type source struct {
	s         *S3
	name, key string
	version   Version
}

// Open implements Remote.
func (s *S3) Open(name string) (Source, error) {
	o, err := s.head(name, s.key(name))
	if err != nil {
		return nil, err
	}
	return &source{s, name, s.key(name), o.entry.Version}, nil
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
	got, err := f.s.get(f.name, f.key, f.version, off, length)
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return copy(p, got), err
}

// Close implements Source.
func (f *source) Close() error { return nil }
