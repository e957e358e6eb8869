package remote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// bucket makes the requests about the objects of a bucket below a prefix, by the names of the remote.
type bucket struct {
	place Place
	rate  *Rate
	ctx   context.Context // ends with stop
	stop  context.CancelFunc

	mu     sync.Mutex
	client *s3.Client       // nil: its settings and credentials are read again
	keys   *core.BucketKeys // nil: they are found
	dial   Dial             // nil: requests do not pass a relay
}

// Conditions that did not hold.
var (
	errCondition = errors.New("the condition does not hold")
	errNoObject  = syscall.ENOENT
)

// key is the key of a name; "." is the prefix.
func (b *bucket) key(name string) string {
	if name == "." {
		return b.place.Prefix
	}
	return path.Join(b.place.Prefix, name)
}

// below is the beginning of the keys of all that is in a directory.
func (b *bucket) below(dir string) string {
	if key := b.key(dir); key != "" {
		return key + "/"
	}
	return ""
}

// url names an object in messages.
func (b *bucket) url(name string) string { return "s3://" + path.Join(b.place.Bucket, b.key(name)) }

// api gives the client of the bucket.
func (b *bucket) api() (*s3.Client, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.client != nil {
		return b.client, nil
	}
	settings := b.settings()
	switch {
	case b.dial != nil:
		settings.Endpoint, settings.Region, settings.Keys, settings.HTTP = relayed, relayedKeys.Region, &relayedKeys, relayLine(b.ctx, b.rate, b.dial)
	case b.keys != nil:
		settings.Keys = b.keys
	}
	var err error
	b.client, err = s3client.New(b.ctx, settings)
	return b.client, err
}

// settings are those of a client that does not pass a relay.
func (b *bucket) settings() s3client.Settings {
	return s3client.Settings{
		Bucket: b.place.Bucket, Endpoint: b.place.Endpoint, Region: b.place.Region, Profile: b.place.Profile, HTTP: line(b.ctx, b.rate),
		Tries: 1, // who calls tries again, and reports meanwhile
	}
}

// call makes a request about a name.
func (b *bucket) call(op, name string, do func(*s3.Client) error) error {
	client, err := b.api()
	if err != nil {
		return err
	}
	err = do(client)
	if !wordless(err) {
		return b.explain(op, name, err)
	}
	// Credentials may have expired, here or at a relay. Where others have replaced them, the request is made again: a
	// permission is missing only where the bucket can be listed with the same ones.
	if err := b.probe(); err != nil {
		return err
	}
	if client, err = b.api(); err != nil {
		return err
	}
	return b.explain(op, name, do(client))
}

// wordless reports whether a refusal has no words, as an answer without content.
func wordless(err error) bool {
	switch s3client.Status(err) {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnauthorized:
		api, is := errors.AsType[smithy.APIError](err)
		return !is || slices.Contains([]string{"", "Forbidden", "BadRequest", "Unauthorized"}, api.ErrorCode())
	}
	return false
}

// probe tries to list the place, and reports why that is refused. A refusal without words is no missing permission.
func (b *bucket) probe() error {
	client, err := b.api()
	if err != nil {
		return err
	}
	err = b.listOne(b.ctx, client)
	if wordless(err) {
		b.forget()
		return Away(s3client.Explain("use", b.place.Bucket, err))
	}
	return b.explain("list", ".", err)
}

// listOne lists one object of the place.
func (b *bucket) listOne(ctx context.Context, client *s3.Client) error {
	below, one := b.below("."), int32(1)
	_, err := client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.place.Bucket, Prefix: &below, MaxKeys: &one})
	return err
}

// forget has settings and credentials read again.
func (b *bucket) forget() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.client = nil
}

// explain gives an error of a request its kind: what the bucket does not have, conditions that
// did not hold, what is not permitted, and what passes.
func (b *bucket) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if b.ctx.Err() != nil {
		return context.Canceled
	}
	if away, is := errors.AsType[noRelay](err); is {
		return Away(away.error)
	}
	code := ""
	if api, is := errors.AsType[smithy.APIError](err); is {
		code = api.ErrorCode()
	}
	at := func(err error) error { return &fs.PathError{Op: op, Path: b.url(name), Err: err} }
	if reason := refusal(code, s3client.Status(err)); reason != "" {
		return at(&Refusal{reason, s3client.Explain("use", b.place.Bucket, err)})
	}
	switch s3client.Status(err) {
	case http.StatusPreconditionFailed:
		return at(errCondition)
	case http.StatusNotFound:
		switch code {
		case "", "NotFound", "NoSuchKey", "NoSuchUpload", "NoSuchVersion":
			return at(errNoObject)
		}
		return Away(s3client.Explain("use", b.place.Bucket, err)) // it is about something else, such as a user who is gone
	case http.StatusRequestedRangeNotSatisfiable:
		return at(fs.ErrClosed)
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnauthorized:
		if code == "AccessDenied" || code == "AllAccessDisabled" || wordless(err) {
			return at(syscall.EACCES)
		}
		b.forget() // credentials may have expired
		return Away(s3client.Explain("use", b.place.Bucket, err))
	}
	if code == RelayHasNoKeys {
		return Away(&core.Error{
			Kind: core.Transient, Op: "use the bucket", Object: b.place.Bucket, Err: errors.New("the submitting machine has no valid credentials for it"),
			Remedy: "Set them up there, as for AWS's tools.",
		})
	}
	err = s3client.Explain("use", b.place.Bucket, err)
	if core.IsKind(err, core.Transient) || s3client.Status(err) == 0 {
		err = Away(err)
	}
	return err
}

// refusal is the reason that an answer of a server has by its code or status, other than a missing permission.
func refusal(code string, status int) Reason {
	switch code {
	case "NoSuchBucket":
		return Missing
	case "QuotaExceeded":
		return Quota
	case "StorageFull", "XMinioStorageFull":
		return Full
	case "EntityTooLarge":
		return TooLarge
	}
	switch status {
	case http.StatusInsufficientStorage:
		return Full
	case http.StatusRequestEntityTooLarge:
		return TooLarge
	}
	return ""
}

// head looks at the object of a key.
func (b *bucket) head(name, key string) (object, error) {
	var o object
	err := b.call("look at", name, func(c *s3.Client) error {
		out, err := c.HeadObject(b.ctx, &s3.HeadObjectInput{Bucket: &b.place.Bucket, Key: &key})
		if err != nil {
			return err
		}
		o = object{
			entry: describeObject(name, strings.HasSuffix(key, "/"), aws.ToInt64(out.ContentLength), aws.ToString(out.ETag), aws.ToTime(out.LastModified), out.Metadata),
			meta:  out.Metadata, at: aws.ToTime(out.LastModified),
		}
		return nil
	})
	if err == nil && o.entry.Version.Tag == "" {
		err = &core.Error{Kind: core.Permanent, Op: "use the bucket", Object: b.url(name), Err: errors.New("it names no version of its objects (ETag)"), Remedy: "Use a bucket of AWS S3, or of a server that has ETags and conditional writes."}
	}
	if err == nil && o.entry.Kind == Link {
		var raw []byte
		raw, err = b.get(name, key, o.entry.Version, 0, o.entry.Version.Size)
		o.entry.Target = string(raw)
		if err == nil && (len(raw) == 0 || strings.Contains(o.entry.Target, "\x00") || !utf8.Valid(raw)) {
			o.entry.Kind = File
		}
	}
	return o, err
}

// deleteVersion deletes the object of a version. What another user has written since stays.
func (b *bucket) deleteVersion(name, key, tag string) error {
	if tag == "" {
		return nil
	}
	err := b.delete(name, key, condition{match: &tag})
	if errors.Is(err, errCondition) {
		err = nil
	}
	return err
}

// vacant reports as ErrForeign what is at a name, other than an empty directory.
func (b *bucket) vacant(name string) error {
	if _, err := b.head(name, b.key(name)); !errors.Is(err, errNoObject) {
		return orForeign(err, "move", b.url(name))
	}
	return b.empty("move", name)
}

// empty reports as ErrForeign what is in a directory.
func (b *bucket) empty(op, dir string) error {
	found, err := b.list(dir, "", 2)
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.name != "" {
			return &fs.PathError{Op: op, Path: b.url(dir), Err: ErrForeign}
		}
	}
	return nil
}

// get reads bytes of the object of a version. The error is fs.ErrClosed where that is gone.
func (b *bucket) get(name, key string, v Version, from, length int64) ([]byte, error) {
	if length == 0 {
		return nil, nil
	}
	p := make([]byte, length)
	got := 0
	err := b.call("read", name, func(c *s3.Client) error {
		out, err := c.GetObject(b.ctx, &s3.GetObjectInput{Bucket: &b.place.Bucket, Key: &key, IfMatch: &v.Tag, Range: aws.String(fmt.Sprintf("bytes=%d-%d", from, from+length-1))})
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
		err = &fs.PathError{Op: "read", Path: b.url(name), Err: fs.ErrClosed}
	}
	return p[:got], err
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
func (b *bucket) list(dir, delimiter string, most int32) ([]listed, error) {
	var list []listed
	below := b.below(dir)
	in := &s3.ListObjectsV2Input{Bucket: &b.place.Bucket, Prefix: &below, EncodingType: types.EncodingTypeUrl}
	if delimiter != "" {
		in.Delimiter = &delimiter
	}
	if most > 0 && most < 1000 { // more are in no answer
		in.MaxKeys = &most
	}
	for {
		var out *s3.ListObjectsV2Output
		err := b.call("list", dir, func(c *s3.Client) (err error) {
			out, err = c.ListObjectsV2(b.ctx, in)
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
		if !aws.ToBool(out.IsTruncated) || in.ContinuationToken == nil || most > 0 && len(list) >= int(most) {
			return list, nil
		}
		if len(list) > mostListed {
			return nil, &core.Error{Kind: core.Permanent, Op: "list", Object: b.url(dir), Err: fmt.Errorf("it has more than %d objects", mostListed), Remedy: "Use a prefix with fewer of them."}
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
func (b *bucket) put(name, key string, meta map[string]string, body []byte, when condition) (Version, error) {
	v := Version{Size: int64(len(body))}
	err := b.call("write", name, func(c *s3.Client) error {
		out, err := c.PutObject(b.ctx, &s3.PutObjectInput{
			Bucket: &b.place.Bucket, Key: &key, Body: bytes.NewReader(body), ContentLength: &v.Size, Metadata: meta, IfMatch: when.match, IfNoneMatch: when.none,
		})
		if err == nil {
			v.Tag = aws.ToString(out.ETag)
		}
		return err
	})
	if errors.Is(err, errNoObject) && when.match != nil { // that is how a condition on nothing fails
		err = &fs.PathError{Op: "write", Path: b.url(name), Err: errCondition}
	}
	return v, err
}

// known looks at an object, and whether the change of a token has made it.
func (b *bucket) known(name, token string) (o object, mine bool, err error) {
	o, err = b.head(name, b.key(name))
	return o, err == nil && o.meta[metaToken] == token, err
}

// delete deletes an object. What is gone is success.
func (b *bucket) delete(name, key string, when condition) error {
	err := b.call("remove", name, func(c *s3.Client) error {
		_, err := c.DeleteObject(b.ctx, &s3.DeleteObjectInput{Bucket: &b.place.Bucket, Key: &key, IfMatch: when.match})
		return err
	})
	if errors.Is(err, errNoObject) {
		err = nil
	}
	return err
}
