package remote

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"sync"

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

// uploads sends objects of several parts.
type uploads struct {
	bucket  *bucket
	notes   string  // directory of notes, by which uploads of a killed process are found
	current *upload // that Write has begun

	mu sync.Mutex // guards the tags of all uploads
}

// abortNoted aborts the uploads that were begun for other changes, by an earlier process too.
func (up *uploads) abortNoted(token string) error {
	if up.current != nil && up.current.token == token {
		return nil
	}
	up.current = nil
	err := stored.AbortBy(up.bucket.ctx, up.notes, func(stored.Place) (*s3.Client, error) { return up.bucket.api() })
	if err != nil && !core.IsKind(err, core.Transient) && up.bucket.ctx.Err() == nil {
		err = nil // it is not permitted: its note stays, and data are not kept waiting for that
	}
	return err
}

// partLength is how long the parts of an object of a size are.
func partLength(size int64) int64 { return max(partSize, (size+mostParts-1)/mostParts) }

// begin asks for an upload.
func (up *uploads) begin(name string, u *upload) error {
	if u.id != "" {
		return nil
	}
	u.note = stored.NewNote(up.notes, stored.Upload{
		Place: stored.Place{Bucket: up.bucket.place.Bucket, Prefix: up.bucket.place.Prefix, Endpoint: up.bucket.place.Endpoint, Region: up.bucket.place.Region, Profile: up.bucket.place.Profile}, Key: u.key,
	})
	if err := u.note.Write(); err != nil {
		return err
	}
	err := up.bucket.call("write", name, func(c *s3.Client) error {
		out, err := c.CreateMultipartUpload(up.bucket.ctx, &s3.CreateMultipartUploadInput{Bucket: &up.bucket.place.Bucket, Key: &u.key, Metadata: u.meta})
		if err == nil {
			u.id = aws.ToString(out.UploadId)
		}
		return err
	})
	if err != nil {
		return errors.Join(err, up.abort(u))
	}
	u.note.ID = u.id
	return u.note.Write()
}

// abort ends an upload that nobody will complete.
func (up *uploads) abort(u *upload) error {
	if u.note == nil {
		return nil
	}
	client, err := up.bucket.api()
	if err == nil {
		err = u.note.Abort(up.bucket.ctx, client)
	}
	if err == nil {
		u.note.Remove()
	}
	return err
}

// sendParts sends the parts of an upload that are not there yet.
func (up *uploads) sendParts(ctx context.Context, name string, u *upload) error {
	if err := up.begin(name, u); err != nil {
		return err
	}
	length := partLength(u.c.Size)
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(partsAtOnce)
	for from, number := int64(0), int32(1); from < u.c.Size && ctx.Err() == nil; from, number = from+length, number+1 {
		up.mu.Lock()
		_, there := u.tags[number]
		up.mu.Unlock()
		if there {
			continue
		}
		size := min(length, u.c.Size-from)
		g.Go(func() error {
			return up.sendPart(name, u, number, func(c *s3.Client) (string, error) {
				out, err := c.UploadPart(ctx, &s3.UploadPartInput{
					Bucket: &up.bucket.place.Bucket, Key: &u.key, UploadId: &u.id, PartNumber: &number,
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
		up.current = nil
	}
	return err
}

// sendPart sends or copies a part, and notes its tag.
func (up *uploads) sendPart(name string, u *upload, number int32, send func(*s3.Client) (string, error)) error {
	return up.bucket.call("write a part of", name, func(c *s3.Client) error {
		tag, err := send(c)
		if err != nil {
			return err
		}
		up.mu.Lock()
		defer up.mu.Unlock()
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
func (up *uploads) complete(name string, u *upload, when condition) (Version, error) {
	v := Version{Size: u.c.Size}
	var parts []types.CompletedPart
	for number, tag := range u.tags {
		parts = append(parts, types.CompletedPart{ETag: &tag, PartNumber: &number})
	}
	slices.SortFunc(parts, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	err := up.bucket.call("write", name, func(c *s3.Client) error {
		out, err := c.CompleteMultipartUpload(up.bucket.ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &up.bucket.place.Bucket, Key: &u.key, UploadId: &u.id, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
			IfNoneMatch: when.none, IfMatch: when.match,
		})
		if err == nil {
			v.Tag = aws.ToString(out.ETag)
		} else if api, is := errors.AsType[smithy.APIError](err); is && api.ErrorCode() == "NoSuchUpload" && up.current == u {
			up.current = nil // it is over
		}
		return err
	})
	if err == nil {
		u.note.Remove()
	}
	if errors.Is(err, errNoObject) { // so it is where nothing is to be replaced
		err = &fs.PathError{Op: "write", Path: up.bucket.url(name), Err: errCondition}
	}
	return v, err
}

// finish makes an upload the object of a name.
func (up *uploads) finish(u *upload, name string, expect Version) (Version, error) {
	key := up.bucket.key(name)
	if u.c.Size <= small {
		body := make([]byte, u.c.Size)
		if err := u.c.At(body, 0); err != nil {
			return Version{}, err
		}
		return up.bucket.put(name, key, u.meta, body, replaces(expect))
	}
	if u.key != key { // parts are for one key
		if o, mine, err := up.bucket.known(name, u.token); mine || !errors.Is(err, errNoObject) {
			if err == nil && !mine {
				err = errCondition
			}
			return o.entry.Version, err
		}
		if err := up.abort(u); err != nil {
			return Version{}, err
		}
		u = &upload{token: u.token, key: key, meta: u.meta, c: u.c, tags: map[int32]string{}}
		up.current = u
		if err := up.sendParts(up.bucket.ctx, name, u); err != nil {
			return Version{}, err
		}
	}
	return up.complete(name, u, replaces(expect))
}
