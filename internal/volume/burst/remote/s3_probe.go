package remote

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/bee-hpc/bee/internal/core"
)

// conditional reports a bucket that ignores conditions: changes of other users would be
// overwritten.
func (s *S3) conditional() (err error) {
	name := Directory + "/probe-" + s.volume
	key := s.bucket.key(name)
	if err := s.bucket.delete(name, key, condition{}); err != nil { // of a killed process
		return err
	}
	v, err := s.bucket.put(name, key, nil, []byte("probe"), replaces(Version{}))
	if err != nil {
		return s.refused("If-None-Match", err)
	}
	defer func() { err = errors.Join(err, s.bucket.delete(name, key, condition{})) }()
	other := condition{match: aws.String(`"0123456789abcdef0123456789abcdef"`)}
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"If-None-Match", func() error { _, err := s.bucket.put(name, key, nil, []byte("none"), replaces(Version{})); return err }},
		{"If-Match", func() error { _, err := s.bucket.put(name, key, nil, []byte("match"), other); return err }},
		{"If-Match of multipart uploads", func() error { return s.probeParts(name, key, other) }},
		{"If-Match of deletions", func() error { return s.bucket.delete(name, key, other) }},
	} {
		if err := c.do(); !errors.Is(err, errCondition) {
			return s.refused(c.what, err)
		}
	}
	if _, err = s.bucket.put(name, key, nil, []byte("again"), replaces(v)); err != nil {
		return s.refused("If-Match", err)
	}
	return nil
}

// probeParts completes an upload on a condition that does not hold.
func (s *S3) probeParts(name, key string, when condition) error {
	u := &upload{key: key, c: Content{Size: 1, At: func(p []byte, _ int64) error { clear(p); return nil }}, tags: map[int32]string{}}
	err := s.uploads.sendParts(s.bucket.ctx, name, u)
	if err == nil {
		_, err = s.uploads.complete(name, u, when)
	}
	if err != nil {
		err = errors.Join(err, s.uploads.abort(u))
	}
	return err
}

// refused is the error of a bucket in which a condition was ignored.
func (s *S3) refused(what string, err error) error {
	if err != nil && (errors.Is(err, ErrAway) || core.KindOf(err) == core.Invalid || s.bucket.ctx.Err() != nil) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return &core.Error{Kind: core.Permanent, Op: "use the bucket", Object: s.bucket.place.Bucket, Err: err, Remedy: "Ask for the right to list the bucket, and to read, write and delete its objects."}
	}
	cause := fmt.Errorf("it ignores the condition %s", what)
	if err != nil {
		cause = fmt.Errorf("%w: %w", cause, err)
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "use the bucket", Object: s.bucket.place.Bucket, Err: cause,
		Remedy: "Changes of others would be overwritten there. Use a bucket of AWS S3, or of another server with conditional writes, such as versitygw from 1.8 on.",
	}
}
