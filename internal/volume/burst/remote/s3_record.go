package remote

import (
	"context"
	"errors"
	"io/fs"
)

// Record implements Remote.
func (s *S3) Record() ([]byte, error) {
	o, err := s.bucket.head(RecordName, s.bucket.key(RecordName))
	if err != nil {
		return nil, err
	}
	return s.bucket.get(RecordName, s.bucket.key(RecordName), o.entry.Version, 0, min(o.entry.Version.Size, mostRecord))
}

// RecordPath implements Remote.
func (s *S3) RecordPath() string { return s.bucket.url(RecordName) }

// RemoveRecord implements Remote. Notes of uploads go with it, and so do those uploads before.
func (s *S3) RemoveRecord() error {
	if err := s.uploads.abortNoted(""); s.bucket.ctx.Err() != nil {
		return context.Canceled
	} else if err != nil {
		return Away(err)
	}
	return s.bucket.delete(RecordName, s.bucket.key(RecordName), condition{})
}

// ReplaceRecord implements Remote.
func (s *S3) ReplaceRecord(_, _ []byte) error {
	return &fs.PathError{Op: "replace", Path: s.bucket.url(RecordName), Err: errors.ErrUnsupported}
}

// Keep implements Remote.
func (s *S3) Keep(from, _ string, _ Version) error {
	return &fs.PathError{Op: "keep", Path: s.bucket.url(from), Err: errors.ErrUnsupported}
}

// SetRecord implements Remote. The first write is preceded by a look whether the bucket applies
// conditions.
func (s *S3) SetRecord(raw []byte) error {
	if err := s.conditional(); err != nil {
		return err
	}
	_, err := s.bucket.put(RecordName, s.bucket.key(RecordName), map[string]string{}, raw, replaces(Version{}))
	if errors.Is(err, errCondition) {
		err = &fs.PathError{Op: "write", Path: s.bucket.url(RecordName), Err: fs.ErrExist}
	}
	return err
}
