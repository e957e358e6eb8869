package remote

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/s3client"
)

// Upload is an object of several parts that is not completed. A bucket keeps the parts, and
// someone pays for them, until it is aborted.
type Upload struct {
	Place Place  `json:"place"`
	Key   string `json:"key"`
	// ID is what the bucket calls it; "": it has not answered yet.
	ID string `json:"id,omitempty"`
	// Begun is when it was asked for.
	Begun time.Time `json:"begun"`
}

// String names an upload in messages.
func (u Upload) String() string { return "s3://" + u.Place.Bucket + "/" + u.Key }

// Note is an upload on record, in a file of its own: a killed process leaves it for Abort.
type Note struct {
	dir, name string
	Upload
}

// NewNote returns a note in a directory, which is not yet written; "": it never is.
func NewNote(dir string, u Upload) *Note { return &Note{dir: dir, Upload: u} }

const (
	noteSuffix = ".upload"
	noteSize   = 64 << 10
	// clockSkew is how much the clocks of this machine and of a bucket may differ.
	clockSkew = 15 * time.Minute
)

// Write records the upload: first without an ID, before the bucket is asked for one.
func (n *Note) Write() error {
	if n.dir == "" {
		return nil
	}
	if n.name == "" {
		n.name = rand.Text() + noteSuffix
	}
	if n.ID == "" {
		n.Begun = time.Now().UTC()
	}
	raw, err := json.Marshal(n.Upload)
	if err == nil {
		err = fsutil.MkdirAll(n.dir, 0o700)
	}
	if err == nil {
		err = fsutil.WriteFile(filepath.Join(n.dir, n.name), raw, 0o600)
	}
	return err
}

// Remove removes the record of an upload that is over.
func (n *Note) Remove() {
	if n.name != "" {
		fsutil.TryRemove(filepath.Join(n.dir, n.name)) // an upload that is over can be aborted again
	}
}

// Abort aborts the upload, unless it is over.
func (n *Note) Abort(ctx context.Context, client *s3.Client) error {
	ids := []string{n.ID}
	if n.ID == "" {
		var err error
		if ids, err = n.find(ctx, client); err != nil {
			return s3client.Explain("look for parts in", n.Place.Bucket, err)
		}
	}
	for _, id := range ids {
		_, err := client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &n.Place.Bucket, Key: &n.Key, UploadId: &id})
		if err != nil && s3client.Status(err) != http.StatusNotFound {
			return s3client.Explain("remove parts from", n.Place.Bucket, err)
		}
	}
	return nil
}

// find finds an upload whose begin the bucket had no time to confirm. Of several for the same
// object, begun at that time, none is known to be it: another program may send the others.
func (n *Note) find(ctx context.Context, client *s3.Client) (ids []string, err error) {
	page, err := client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{Bucket: &n.Place.Bucket, Prefix: &n.Key})
	if err != nil {
		return nil, err
	}
	for _, u := range page.Uploads {
		if aws.ToString(u.Key) == n.Key && aws.ToTime(u.Initiated).Sub(n.Begun).Abs() < clockSkew {
			ids = append(ids, aws.ToString(u.UploadId))
		}
	}
	if len(ids) != 1 {
		return nil, nil
	}
	return ids, nil
}

// Uploads returns the uploads that are noted in a directory.
func Uploads(dir string) ([]Upload, error) {
	var list []Upload
	err := eachNote(dir, func(n *Note) error {
		list = append(list, n.Upload)
		return nil
	})
	return list, err
}

// Abort aborts the uploads that are noted in a directory, and forgets them. No process may
// send any of them.
func Abort(ctx context.Context, dir string) error {
	return AbortBy(ctx, dir, func(p Place) (*s3.Client, error) { return p.client(ctx) })
}

// AbortBy is Abort by the clients that client returns.
func AbortBy(ctx context.Context, dir string, client func(Place) (*s3.Client, error)) error {
	return eachNote(dir, func(n *Note) error {
		client, err := client(n.Place)
		if err != nil {
			return err
		}
		if err := n.Abort(ctx, client); err != nil {
			return &core.Error{Kind: core.KindOf(err), Op: "abort the upload of", Object: n.String(), Err: err, Remedy: cmp.Or(core.OwnRemedy(err), "`bee sweep` tries again.")}
		}
		n.Remove()
		return nil
	})
}

// eachNote calls a function with each note.
func eachNote(dir string, fn func(*Note) error) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), noteSuffix) {
			continue
		}
		n := &Note{dir: dir, name: e.Name()}
		raw, err := fsutil.ReadFile(dir, e.Name(), noteSize)
		if err == nil {
			err = json.Unmarshal(raw, &n.Upload)
		}
		if err == nil {
			err = fn(n)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
