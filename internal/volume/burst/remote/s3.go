package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"unicode"
	"unicode/utf8"
)

// S3 is a bucket as a remote: each file is an object, and so is a link, whose content is its
// target. A directory is an empty object whose key ends with a slash; one without it is known
// by what is in it. Permissions and times are metadata of the objects.
//
// Every write has a condition: the object that is replaced is the one that was seen. Each
// version carries the number of the change that has made it, by which it is known after a
// crash.
type S3 struct {
	volume     string
	bucket     *bucket
	attributes *attributes
	uploads    *uploads
	copier     *copier

	mu     sync.Mutex
	moving string // token of the change by which MoveDir moves objects
}

// OpenS3 uses the objects of a bucket below a prefix for the volume of an id. It does not try
// the bucket. Uploads that a killed process has left are noted in the directory notes.
func OpenS3(p Place, volume, notes string, rate *Rate) *S3 {
	b := &bucket{place: p, rate: rate}
	b.ctx, b.stop = context.WithCancel(context.Background())
	s := &S3{volume: volume, bucket: b, uploads: &uploads{bucket: b, notes: notes}}
	s.attributes = &attributes{bucket: b, volume: volume, seen: map[string]object{}, dirs: map[string]object{}}
	s.copier = &copier{bucket: b, uploads: s.uploads, volume: volume}
	return s
}

// Stop implements Remote.
func (s *S3) Stop() { s.bucket.stop() }

// Close implements Remote.
func (s *S3) Close() error {
	s.bucket.stop()
	return nil
}

// Traits implements Remote.
func (s *S3) Traits() Traits { return Traits{Fresh: fresh} }

// Space implements Remote: a bucket has no end.
func (s *S3) Space() (total, free int64, err error) { return 1 << 50, 1 << 50, nil }

// mostKey is the longest key of an object, in bytes; what conflicts needs some of it.
const mostKey = 1024 - 64

// Check implements Remote.
func (s *S3) Check(name string) error {
	switch {
	case len(s.bucket.key(name)) > mostKey:
		return syscall.ENAMETOOLONG
	case !utf8.ValidString(name), strings.ContainsFunc(name, unicode.IsControl): // not every server can list it
		return syscall.EILSEQ
	}
	return nil
}

// token names a change, in the metadata of what it has made.
func (s *S3) token(seq uint64) string { return fmt.Sprintf("%s-%d", s.volume, seq) }
