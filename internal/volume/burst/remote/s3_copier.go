package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"golang.org/x/sync/errgroup"
)

// copier gives objects other names and metadata. A bucket has no other way than to copy them.
type copier struct {
	bucket  *bucket
	uploads *uploads
	volume  string
}

// copySize is the part of an object that the bucket copies at a time, in bytes.
const copySize = 1 << 30

// copy writes the object from again, with other metadata, where a condition holds. The bucket
// copies all but small ones.
func (cp *copier) copy(from string, o object, to string, meta map[string]string, when condition) (Version, error) {
	key, size := cp.bucket.key(from), o.entry.Version.Size
	if size <= small {
		body, err := cp.bucket.get(from, key, o.entry.Version, 0, size)
		if err != nil {
			return Version{}, err
		}
		return cp.bucket.put(to, cp.bucket.key(to), meta, body, when)
	}
	u := &upload{key: cp.bucket.key(to), meta: meta, c: Content{Size: size}, tags: map[int32]string{}}
	err := cp.uploads.begin(to, u)
	if err == nil {
		err = cp.copyParts(from, o, to, u)
	}
	var v Version
	if err == nil {
		v, err = cp.uploads.complete(to, u, when)
	}
	if err != nil {
		err = errors.Join(err, cp.uploads.abort(u))
	}
	return v, err
}

// copyParts has the bucket copy an object part by part.
func (cp *copier) copyParts(from string, o object, to string, u *upload) error {
	source := cp.bucket.place.Bucket + "/" + Escape(cp.bucket.key(from))
	length := max(copySize, partLength(u.c.Size))
	for at, number := int64(0), int32(1); at < u.c.Size; at, number = at+length, number+1 {
		err := cp.uploads.sendPart(to, u, number, func(c *s3.Client) (string, error) {
			out, err := c.UploadPartCopy(cp.bucket.ctx, &s3.UploadPartCopyInput{
				Bucket: &cp.bucket.place.Bucket, Key: &u.key, UploadId: &u.id, PartNumber: &number, CopySource: &source, CopySourceIfMatch: &o.entry.Version.Tag,
				CopySourceRange: aws.String(fmt.Sprintf("bytes=%d-%d", at, min(at+length, u.c.Size)-1)),
			})
			if err != nil || out.CopyPartResult == nil {
				return "", err
			}
			return aws.ToString(out.CopyPartResult.ETag), nil
		})
		if errors.Is(err, errCondition) {
			err = &fs.PathError{Op: "copy", Path: cp.bucket.url(from), Err: fs.ErrClosed}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Escape writes a key as a URL and the header of a copy want it.
func Escape(key string) string {
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

// copied copies an object to a name where the version expect is now, unless it is there. It returns
// the tag of the version that was copied, too: by an earlier try that may have been another one.
func (cp *copier) copied(from string, o object, to, token string, expect Version) (v Version, of string, err error) {
	meta := maps.Clone(o.meta)
	if meta == nil {
		meta = map[string]string{}
	}
	meta[metaToken], meta[metaFrom] = token, url.PathEscape(o.entry.Version.Tag)
	if meta[metaMtime] == "" {
		meta[metaMtime] = timeText(o.entry.Mtime)
	}
	v, err = cp.copy(from, o, to, meta, replaces(expect))
	if errors.Is(err, errCondition) {
		now, mine, err := cp.bucket.known(to, token)
		if err == nil && !mine || errors.Is(err, errNoObject) {
			err = &fs.PathError{Op: "move", Path: cp.bucket.url(to), Err: ErrForeign}
		}
		if err == nil {
			of, err = url.PathUnescape(now.meta[metaFrom])
		}
		return now.entry.Version, of, err
	}
	return v, o.entry.Version.Tag, err
}

// copyAll copies all objects below a directory, and notes in the list which versions were copied.
func (cp *copier) copyAll(from, to, token string, all []listed) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for i, f := range all {
		if f.name == "" {
			continue
		}
		g.Go(func() (err error) {
			all[i].tag, err = cp.copyBelow(from, to, f.name, token)
			return err
		})
	}
	return g.Wait()
}

// copyBelow copies one object below a directory to the same place below another. It returns the tag
// of the version that was copied; "" of a marker.
func (cp *copier) copyBelow(from, to, name, token string) (of string, err error) {
	if dir, is := strings.CutSuffix(name, "/"); is {
		o, err := cp.bucket.head(path.Join(from, dir), cp.bucket.below(from)+name)
		if err != nil {
			return "", err
		}
		_, err = cp.bucket.put(path.Join(to, dir), cp.bucket.below(to)+name, o.meta, nil, replaces(Version{}))
		if errors.Is(err, errCondition) {
			err = nil
		}
		return "", err
	}
	o, err := cp.bucket.head(path.Join(from, name), cp.bucket.key(path.Join(from, name)))
	if err != nil {
		return "", err
	}
	store := func(place string) (err error) {
		_, of, err = cp.copied(path.Join(from, name), o, place, token, Version{})
		return err
	}
	place := path.Join(to, name)
	err = store(place)
	if errors.Is(err, ErrForeign) { // another user writes there
		err = Beside(path.Base(place), cp.volume, func(name string) error { return store(path.Join(path.Dir(place), name)) })
	}
	return of, err
}

// deleteAll deletes the listed objects below a directory, of files only the version that was copied.
func (cp *copier) deleteAll(dir string, all []listed) error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	for _, f := range all {
		g.Go(func() error {
			key := cp.bucket.below(dir) + f.name
			if f.name == "" || strings.HasSuffix(f.name, "/") {
				return cp.bucket.delete(dir, key, condition{})
			}
			return cp.bucket.deleteVersion(dir, key, f.tag)
		})
	}
	return g.Wait()
}

// movedTo gives the versions of what a change has moved below a directory.
func (cp *copier) movedTo(dir, token string) (map[string]Version, error) {
	all, err := cp.bucket.list(dir, "", 0)
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
			o, mine, err := cp.bucket.known(name, token)
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
