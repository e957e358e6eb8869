package remote

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/bee-hpc/bee/internal/core"
	stored "github.com/bee-hpc/bee/internal/remote"
	"golang.org/x/sync/errgroup"
)

// Sizes in bytes: a file up to small is sent at once when it is published, a larger one in
// parts before. An object has up to mostParts of them.
const (
	small     = 256 << 10
	partSize  = 8 << 20
	mostParts = 9000
	// partsAtOnce is how many parts are sent at a time.
	partsAtOnce = 4
)

// condition is what has to hold for an object to be written.
type condition struct{ match, none *string }

// replaces is the condition that the version v is there.
func replaces(v Version) condition {
	if v.None() {
		return condition{none: aws.String("*")}
	}
	return condition{match: &v.Tag}
}

// put writes a small object.
func (s *S3) put(name, key string, meta map[string]string, body []byte, when condition) (Version, error) {
	v := Version{Size: int64(len(body))}
	err := s.call("write", name, func(c *s3.Client) error {
		out, err := c.PutObject(s.ctx, &s3.PutObjectInput{
			Bucket: &s.place.Bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: &v.Size, Metadata: meta, IfMatch: when.match, IfNoneMatch: when.none,
		})
		if err == nil {
			v.Tag = aws.ToString(out.ETag)
		}
		return err
	})
	if errors.Is(err, errNoObject) && when.match != nil { // that is how a condition on nothing fails
		err = &fs.PathError{Op: "write", Path: s.url(name), Err: errCondition}
	}
	return v, err
}

// upload is an object of several parts on its way. It is kept in memory alone: after a crash
// it is aborted, by its note, and sent again.
type upload struct {
	token, key string
	meta       map[string]string
	c          Content
	id         string
	note       *stored.Note
	tags       map[int32]string // of the parts that are there
}

// Write implements Remote. Parts are sent, and of a small file nothing yet.
func (s *S3) Write(ctx context.Context, name string, _ uint64, c Content) (string, Version, error) {
	token := s.token(c.Seq)
	v := Version{Tag: token, Size: c.Size}
	if err := s.abortNoted(token); err != nil {
		return token, v, err
	}
	u := s.upload
	if u == nil || u.token != token || u.key != s.key(name) {
		u = &upload{token: token, key: s.key(name), meta: metadata(File, c.Mode, c.Mtime, token), c: c, tags: map[int32]string{}}
		s.upload = u
	}
	u.c = c
	if c.Size <= small {
		return token, v, nil
	}
	return token, v, s.sendParts(ctx, name, u)
}

// abortNoted aborts the uploads that were begun for other changes, by an earlier process too.
func (s *S3) abortNoted(token string) error {
	if s.upload != nil && s.upload.token == token {
		return nil
	}
	s.upload = nil
	err := stored.Abort(s.ctx, s.notes)
	if err != nil && !core.IsKind(err, core.Transient) && s.ctx.Err() == nil {
		err = nil // it is not permitted: its note stays, and data are not kept waiting for that
	}
	return err
}

func partLength(size int64) int64 { return max(partSize, (size+mostParts-1)/mostParts) }

// begin asks for an upload.
func (s *S3) begin(name string, u *upload) error {
	if u.id != "" {
		return nil
	}
	u.note = stored.NewNote(s.notes, stored.Upload{
		Place: stored.Place{Bucket: s.place.Bucket, Prefix: s.place.Prefix, Endpoint: s.place.Endpoint, Region: s.place.Region, Profile: s.place.Profile}, Key: u.key,
	})
	if err := u.note.Write(); err != nil {
		return err
	}
	err := s.call("write", name, func(c *s3.Client) error {
		out, err := c.CreateMultipartUpload(s.ctx, &s3.CreateMultipartUploadInput{Bucket: &s.place.Bucket, Key: &u.key, Metadata: u.meta})
		if err == nil {
			u.id = aws.ToString(out.UploadId)
		}
		return err
	})
	if err != nil {
		return errors.Join(err, s.abort(u))
	}
	u.note.ID = u.id
	return u.note.Write()
}

// abort ends an upload that nobody will complete.
func (s *S3) abort(u *upload) error {
	if u.note == nil {
		return nil
	}
	client, err := s.api()
	if err == nil {
		err = u.note.Abort(s.ctx, client)
	}
	if err == nil {
		u.note.Remove()
	}
	return err
}

// sendParts sends the parts of an upload that are not there yet.
func (s *S3) sendParts(ctx context.Context, name string, u *upload) error {
	if err := s.begin(name, u); err != nil {
		return err
	}
	length := partLength(u.c.Size)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	for from, number := int64(0), int32(1); from < u.c.Size && ctx.Err() == nil; from, number = from+length, number+1 {
		s.mu.Lock()
		_, there := u.tags[number]
		s.mu.Unlock()
		if there {
			continue
		}
		size := min(length, u.c.Size-from)
		g.Go(func() error {
			return s.sendPart(name, u, number, func(c *s3.Client) (string, error) {
				out, err := c.UploadPart(ctx, &s3.UploadPartInput{
					Bucket: &s.place.Bucket, Key: &u.key, UploadId: &u.id, PartNumber: &number,
					Body: io.NewSectionReader(readerAt(u.c.At), from, size), ContentLength: &size,
				})
				if err != nil {
					return "", err
				}
				return aws.ToString(out.ETag), nil
			})
		})
	}
	err := g.Wait()
	if want := (u.c.Size + length - 1) / length; err == nil && int64(len(u.tags)) != want {
		err = context.Canceled
	}
	if errors.Is(err, errNoObject) { // another process has aborted the upload
		s.upload = nil
	}
	return err
}

func (s *S3) sendPart(name string, u *upload, number int32, send func(*s3.Client) (string, error)) error {
	return s.call("write a part of", name, func(c *s3.Client) error {
		tag, err := send(c)
		if err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		u.tags[number] = tag
		return nil
	})
}

// readerAt reads the content of a file.
type readerAt func(p []byte, off int64) error

// ReadAt implements io.ReaderAt.
func (r readerAt) ReadAt(p []byte, off int64) (int, error) {
	if err := r(p, off); err != nil {
		return 0, err
	}
	return len(p), nil
}

// complete makes an object of its parts.
func (s *S3) complete(name string, u *upload, when condition) (Version, error) {
	v := Version{Size: u.c.Size}
	var parts []types.CompletedPart
	for number, tag := range u.tags {
		parts = append(parts, types.CompletedPart{ETag: &tag, PartNumber: &number})
	}
	slices.SortFunc(parts, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	err := s.call("write", name, func(c *s3.Client) error {
		out, err := c.CompleteMultipartUpload(s.ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &s.place.Bucket, Key: &u.key, UploadId: &u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
			IfNoneMatch: when.none, IfMatch: when.match,
		})
		if err == nil {
			v.Tag = aws.ToString(out.ETag)
		} else if api, is := errors.AsType[smithy.APIError](err); is && api.ErrorCode() == "NoSuchUpload" && s.upload == u {
			s.upload = nil // it is over
		}
		return err
	})
	if err == nil {
		u.note.Remove()
	}
	if errors.Is(err, errNoObject) { // so it is where nothing is to be replaced
		err = &fs.PathError{Op: "write", Path: s.url(name), Err: errCondition}
	}
	return v, err
}

// Discard implements Remote.
func (s *S3) Discard(string, uint64) error {
	return s.abortNoted("")
}

// Publish implements Remote. The version is known by its token, here and in the metadata of
// what an earlier process has published.
func (s *S3) Publish(token, name string, _, expect Version) (Version, error) {
	v, err := s.publish(token, name, expect)
	if err == nil {
		s.upload = nil
	}
	return v, err
}

func (s *S3) publish(token, name string, expect Version) (Version, error) {
	foreign := &fs.PathError{Op: "publish", Path: s.url(name), Err: ErrForeign}
	if expect.None() {
		if found, err := s.list(name, "", 1); err != nil || len(found) > 0 {
			return Version{}, orForeign(err, "publish", s.url(name))
		}
	}
	sent := s.upload != nil && s.upload.token == token
	if sent {
		v, err := s.finish(s.upload, name, expect)
		if !errors.Is(err, errCondition) {
			return v, err
		}
		sent = s.upload != nil
	}
	o, mine, err := s.known(name, token)
	switch {
	case mine || err != nil && !errors.Is(err, errNoObject):
		return o.entry.Version, err
	case err != nil && !expect.None(): // what it was to replace is gone
		return Version{}, foreign
	case err != nil || !sent && o.entry.Version == expect: // it has to be sent again
		return Version{}, &fs.PathError{Op: "publish", Path: s.url(name), Err: errNoObject}
	}
	return Version{}, foreign
}

// finish makes an upload the object of a name.
func (s *S3) finish(u *upload, name string, expect Version) (Version, error) {
	key := s.key(name)
	if u.c.Size <= small {
		body := make([]byte, u.c.Size)
		if err := u.c.At(body, 0); err != nil {
			return Version{}, err
		}
		return s.put(name, key, u.meta, body, replaces(expect))
	}
	if u.key != key { // parts are for one key
		if o, mine, err := s.known(name, u.token); mine || !errors.Is(err, errNoObject) {
			if err == nil && !mine {
				err = errCondition
			}
			return o.entry.Version, err
		}
		if err := s.abort(u); err != nil {
			return Version{}, err
		}
		u = &upload{token: u.token, key: key, meta: u.meta, c: u.c, tags: map[int32]string{}}
		s.upload = u
		if err := s.sendParts(s.ctx, name, u); err != nil {
			return Version{}, err
		}
	}
	return s.complete(name, u, replaces(expect))
}

// known looks at an object, and whether the change of a token has made it.
func (s *S3) known(name, token string) (o object, mine bool, err error) {
	o, err = s.head(name, s.key(name))
	return o, err == nil && o.meta[metaToken] == token, err
}

// Remove implements Remote.
func (s *S3) Remove(name string, _ uint64, expect Version) error {
	if err := s.mark(name); err != nil {
		return err
	}
	err := s.delete(name, s.key(name), replaces(expect))
	if errors.Is(err, errCondition) {
		err = &fs.PathError{Op: "remove", Path: s.url(name), Err: ErrForeign}
	}
	return err
}

// delete deletes an object. What is gone is success.
func (s *S3) delete(name, key string, when condition) error {
	err := s.call("remove", name, func(c *s3.Client) error {
		_, err := c.DeleteObject(s.ctx, &s3.DeleteObjectInput{Bucket: &s.place.Bucket, Key: &key, IfMatch: when.match})
		return err
	})
	if errors.Is(err, errNoObject) {
		err = nil
	}
	return err
}
