package remote

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/bee-hpc/bee/internal/s3client"
)

// Place is a prefix of a bucket's.
type Place struct {
	Bucket, Prefix            string
	Endpoint, Region, Profile string
}

// Stored is what is recorded with an object.
type Stored struct {
	Run    string
	Writer string // those of one writer replace each other's
}

// Names of that in an object's metadata.
const (
	metaRun    = "bee-run"
	metaWriter = "bee-writer"
)

// Sizes of objects and of their parts, in bytes, and how many parts one can have.
const (
	wholeSize = 64 << 20
	mostParts = 9000
)

// mostLooks is how often an object is looked at that others change meanwhile.
const mostLooks = 5

// mostKey is the longest key of an object, in bytes.
const mostKey = 1024

// Sender stores files below a place. Several goroutines may use it.
type Sender struct {
	// Notes is a directory for notes of uploads that are not completed, for Abort: this process
	// may be killed meanwhile. "": nothing is noted.
	Notes string

	place  Place
	client *s3.Client
}

// client connects to the bucket of a place.
func (p Place) client(ctx context.Context) (*s3.Client, error) {
	return newClient(ctx, File{Bucket: p.Bucket, Endpoint: p.Endpoint, Region: p.Region, Profile: p.Profile})
}

// NewSender reads the credentials for a place; it does not try them.
func NewSender(ctx context.Context, p Place) (*Sender, error) {
	client, err := p.client(ctx)
	if err != nil {
		return nil, err
	}
	return &Sender{place: p, client: client}, nil
}

// Send stores a file as an object, all of it or nothing. The error wraps fs.ErrExist where an
// object is there that another writer has stored, unless replace is set.
func (s *Sender) Send(ctx context.Context, name string, file *os.File, as Stored, replace bool) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	one := sending{client: s.client, note: Note{dir: s.Notes, Upload: Upload{Place: s.place}}, bucket: s.place.Bucket, key: keyOf(s.place.Prefix, name), file: file, size: info.Size(), meta: map[string]string{metaRun: as.Run, metaWriter: url.QueryEscape(as.Writer)}}
	for range mostLooks {
		var when condition
		if !replace {
			if when, err = one.condition(ctx); err != nil {
				return err
			}
		}
		if err = one.store(ctx, when); !changed(err) {
			break
		}
	}
	return one.explain("write to", err)
}

// keyOf is the key of a name. Bytes that are no text are escaped, and a name for which no key
// is long enough is in long-names, by its digest.
func keyOf(prefix, name string) string {
	var b strings.Builder
	if prefix != "" {
		b.WriteString(prefix + "/")
	}
	if b.Len()+3*len(name) > mostKey {
		return fmt.Sprintf("%slong-names/%x", b.String(), sha256.Sum256([]byte(name)))
	}
	for len(name) > 0 {
		r, n := utf8.DecodeRuneInString(name)
		if r == utf8.RuneError && n <= 1 {
			fmt.Fprintf(&b, "%%%02X", name[0])
		} else {
			b.WriteString(name[:n])
		}
		name = name[max(n, 1):]
	}
	return b.String()
}

// sending is one file on its way to a bucket.
type sending struct {
	note        Note
	client      *s3.Client
	bucket, key string
	file        *os.File
	size        int64
	meta        map[string]string
}

// condition is what has to hold for an object to be stored.
type condition struct {
	none *string // nothing is there
	same *string // the object with that tag is
}

// condition looks at what is there. fs.ErrExist: it is another user's.
func (s *sending) condition(ctx context.Context) (condition, error) {
	there, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.bucket, Key: &s.key})
	if s3client.Status(err) == http.StatusNotFound {
		return condition{none: aws.String("*")}, nil
	}
	if err != nil {
		return condition{}, s.explain("look into", err)
	}
	if there.Metadata[metaWriter] != s.meta[metaWriter] {
		return condition{}, fmt.Errorf("s3://%s/%s: %w", s.bucket, s.key, fs.ErrExist)
	}
	return condition{same: there.ETag}, nil
}

// changed reports whether an object was changed since it was looked at.
func changed(err error) bool {
	code := s3client.Status(err)
	return code == http.StatusPreconditionFailed || code == http.StatusConflict
}

func (s *sending) explain(op string, err error) error {
	return s3client.Explain(op, s.bucket, err)
}

func (s *sending) store(ctx context.Context, when condition) error {
	if s.size > wholeSize {
		return s.storeParts(ctx, when)
	}
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &s.key, Body: io.NewSectionReader(s.file, 0, s.size), ContentLength: &s.size,
		Metadata: s.meta, IfNoneMatch: when.none, IfMatch: when.same,
	})
	return err
}

// abortTime is how long the end of what was not completed may take.
const abortTime = 20 * time.Second

// storeParts stores a file of many parts. It appears when all of them are there.
func (s *sending) storeParts(ctx context.Context, when condition) (err error) {
	s.note.Key, s.note.ID = s.key, ""
	if err := s.note.Write(); err != nil {
		return err
	}
	upload, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &s.key, Metadata: s.meta})
	if err != nil {
		if code := s3client.Status(err); 400 <= code && code < 500 { // nothing was begun
			s.note.Remove()
		}
		return err
	}
	s.note.ID = aws.ToString(upload.UploadId)
	defer func() {
		if err == nil {
			s.note.Remove()
			return
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTime)
		defer cancel()
		aerr := s.note.Abort(ctx, s.client)
		if aerr == nil {
			s.note.Remove()
		}
		err = errors.Join(err, aerr)
	}()
	if err := s.note.Write(); err != nil {
		return err
	}
	size := max(wholeSize, (s.size+mostParts-1)/mostParts)
	var parts []types.CompletedPart
	for from := int64(0); from < s.size; from += size {
		length, number := min(size, s.size-from), int32(len(parts)+1)
		part, err := s.client.UploadPart(ctx, &s3.UploadPartInput{
			Bucket: &s.bucket, Key: &s.key, UploadId: upload.UploadId, PartNumber: &number,
			Body: io.NewSectionReader(s.file, from, length), ContentLength: &length,
		})
		if err != nil {
			return err
		}
		parts = append(parts, types.CompletedPart{ETag: part.ETag, PartNumber: &number})
	}
	_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &s.bucket, Key: &s.key, UploadId: upload.UploadId, MultipartUpload: &types.CompletedMultipartUpload{Parts: parts},
		IfNoneMatch: when.none, IfMatch: when.same,
	})
	return err
}
