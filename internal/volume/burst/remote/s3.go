package remote

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/s3client"
)

// S3 is a bucket as a remote: each file is an object, and so is a link, whose content is its
// target. A directory is an empty object whose key ends with a slash; one without it is known
// by what is in it. Permissions and times are metadata of the objects.
//
// Every write has a condition: the object that is replaced is the one that was seen. Each
// version carries the number of the change that has made it, by which it is known after a
// crash.
type S3 struct {
	place  Place
	volume string
	notes  string
	rate   *Rate
	ctx    context.Context // ends with Stop
	stop   context.CancelFunc

	mu     sync.Mutex
	client *s3.Client        // nil: its settings and credentials are read again
	seen   map[string]object // files as they were listed, by key
	dirs   map[string]object // markers of directories
	upload *upload           // that Write has begun
	moving string            // token of the change by which MoveDir moves objects
}

// OpenS3 uses the objects of a bucket below a prefix for the volume of an id. It does not try
// the bucket. Uploads that a killed process has left are noted in the directory notes.
func OpenS3(p Place, volume, notes string, rate *Rate) *S3 {
	s := &S3{place: p, volume: volume, notes: notes, rate: rate, seen: map[string]object{}, dirs: map[string]object{}}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s
}

// Stop implements Remote.
func (s *S3) Stop() { s.stop() }

// Close implements Remote.
func (s *S3) Close() error {
	s.stop()
	return nil
}

// Traits implements Remote. A directory of many files is listed by one request, and each file
// costs another one: its attributes count for longer.
func (s *S3) Traits() Traits { return Traits{Fresh: 5 * time.Second} }

// Space implements Remote: a bucket has no end.
func (s *S3) Space() (total, free int64, err error) { return 1 << 50, 1 << 50, nil }

// mostKey is the longest key of an object, in bytes; what conflicts needs some of it.
const mostKey = 1024 - 64

// Check implements Remote.
func (s *S3) Check(name string) error {
	switch {
	case len(s.key(name)) > mostKey:
		return syscall.ENAMETOOLONG
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl): // not every server can list it
		return syscall.EILSEQ
	}
	return nil
}

// key is the key of a name; "." is the prefix.
func (s *S3) key(name string) string {
	if name == "." {
		return s.place.Prefix
	}
	return path.Join(s.place.Prefix, name)
}

// below is the beginning of the keys of all that is in a directory.
func (s *S3) below(dir string) string {
	if key := s.key(dir); key != "" {
		return key + "/"
	}
	return ""
}

func (s *S3) url(name string) string { return "s3://" + path.Join(s.place.Bucket, s.key(name)) }

// api gives the client of the bucket.
func (s *S3) api() (*s3.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client != nil {
		return s.client, nil
	}
	var err error
	s.client, err = s3client.New(s.ctx, s3client.Settings{
		Bucket: s.place.Bucket, Endpoint: s.place.Endpoint, Region: s.place.Region, Profile: s.place.Profile, HTTP: line(s.ctx, s.rate),
		Tries: 1, // who calls tries again, and reports meanwhile
	})
	return s.client, err
}

// Conditions that did not hold.
var (
	errCondition = errors.New("the condition does not hold")
	errNoObject  = syscall.ENOENT
)

// call makes a request about a name.
func (s *S3) call(op, name string, do func(*s3.Client) error) error {
	client, err := s.api()
	if err != nil {
		return err
	}
	return s.explain(op, name, do(client))
}

// explain gives an error of a request its kind: what the bucket does not have, conditions that
// did not hold, what is not permitted, and what passes.
func (s *S3) explain(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return context.Canceled
	}
	code := ""
	if api, is := errors.AsType[smithy.APIError](err); is {
		code = api.ErrorCode()
	}
	at := func(err error) error { return &fs.PathError{Op: op, Path: s.url(name), Err: err} }
	switch s3client.Status(err) {
	case http.StatusPreconditionFailed:
		return at(errCondition)
	case http.StatusNotFound:
		if code != "NoSuchBucket" {
			return at(errNoObject)
		}
	case http.StatusRequestedRangeNotSatisfiable:
		return at(fs.ErrClosed)
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnauthorized:
		switch code {
		case "AccessDenied", "AllAccessDisabled":
			return at(syscall.EACCES)
		case "", "Forbidden", "BadRequest", "Unauthorized": // it has no words, as an answer without content
			if _, err := s.list(".", "", 1); err != nil {
				return err
			}
			return at(syscall.EACCES)
		}
		// Credentials may have expired: they are read again.
		s.mu.Lock()
		s.client = nil
		s.mu.Unlock()
		return Away(s3client.Explain("use", s.place.Bucket, err))
	}
	err = s3client.Explain("use", s.place.Bucket, err)
	if core.IsKind(err, core.Transient) || s3client.Status(err) == 0 {
		err = Away(err)
	}
	return err
}

// Names of metadata, as s3fs and rclone have them, and of BEE's own.
const (
	metaMode  = "mode"
	metaMtime = "mtime"
	metaToken = "bee-change"
	metaFrom  = "bee-from" // version that a move has copied
)

// token names a change, in the metadata of what it has made.
func (s *S3) token(seq uint64) string { return fmt.Sprintf("%s-%d", s.volume, seq) }

// dirVersion is the version of all directories: what is in them has versions of its own.
var dirVersion = Version{Tag: "/"} //nolint:gochecknoglobals // a constant

// object is one of the bucket.
type object struct {
	entry Entry
	meta  map[string]string
	at    time.Time // when the bucket has made it, or when it was looked at
}

// metadata gives attributes as metadata, with the kind in the mode as stat(2) has it.
func metadata(kind Kind, mode uint32, mtime int64, token string) map[string]string {
	mode &= 0o1777
	switch kind {
	case Dir:
		mode |= syscall.S_IFDIR
	case Link:
		mode |= syscall.S_IFLNK
	default:
		mode |= syscall.S_IFREG
	}
	m := map[string]string{metaMode: fmt.Sprint(mode), metaToken: token}
	if mtime != 0 {
		m[metaMtime] = timeText(mtime)
	}
	return m
}

// describeObject reads what is known of an object. A stranger who may write to the
// bucket may have written the metadata: they give nobody rights but those of its file.
func describeObject(name string, dir bool, size int64, tag string, modified time.Time, meta map[string]string) Entry {
	e := Entry{Name: path.Base(name), Kind: File, Mode: 0o644, UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Mtime: modified.UnixNano(), Version: Version{Tag: tag, Size: size}}
	if dir {
		e.Kind, e.Mode, e.Loose, e.Version = Dir, 0o755, true, dirVersion
	}
	if mode, err := strconv.ParseUint(meta[metaMode], 10, 32); err == nil {
		e.Mode = uint32(mode) & 0o1777
		if mode&syscall.S_IFMT == syscall.S_IFLNK && !dir && size < syscall.PathMax {
			e.Kind, e.Mode = Link, 0o777
		}
	}
	if at, is := parseTime(meta[metaMtime]); is {
		e.Mtime, e.Loose = at, false
	}
	return e
}

// timeText writes nanoseconds since 1970 as seconds with nine decimals.
func timeText(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%09d", sign, ns/1e9, ns%1e9)
}

// parseTime reads seconds since 1970 with up to nine decimals, as nanoseconds.
func parseTime(text string) (int64, bool) {
	whole, part, _ := strings.Cut(text, ".")
	seconds, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || seconds < -1<<33 || seconds > 1<<33 {
		return 0, false
	}
	nanos, err := strconv.ParseUint((part + "000000000")[:9], 10, 32)
	if err != nil {
		return 0, false
	}
	if strings.HasPrefix(whole, "-") {
		return seconds*1e9 - int64(nanos), true
	}
	return seconds*1e9 + int64(nanos), true
}

// head looks at the object of a key.
func (s *S3) head(name, key string) (object, error) {
	var o object
	err := s.call("look at", name, func(c *s3.Client) error {
		out, err := c.HeadObject(s.ctx, &s3.HeadObjectInput{Bucket: &s.place.Bucket, Key: &key})
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
		err = &core.Error{Kind: core.Permanent, Op: "use the bucket", Object: s.url(name), Err: errors.New("it names no version of its objects (ETag)"), Remedy: "Use a bucket of AWS S3, or of a server that has ETags and conditional writes."}
	}
	if err == nil && o.entry.Kind == Link {
		var raw []byte
		raw, err = s.get(name, key, o.entry.Version, 0, o.entry.Version.Size)
		o.entry.Target = string(raw)
		if err == nil && (len(raw) == 0 || strings.Contains(o.entry.Target, "\x00") || !utf8.Valid(raw)) {
			o.entry.Kind = File
		}
	}
	return o, err
}
