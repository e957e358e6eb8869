package sshlink

import "io"

// ProgressReader counts the bytes that are read through it.
type ProgressReader struct {
	io.Reader
	// Report, if not nil, is called with the number of bytes until now. It must not block.
	Report func(done int64)
	n      int64
}

// Read implements io.Reader.
func (r *ProgressReader) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n += int64(n)
	if r.Report != nil {
		r.Report(r.n)
	}
	return n, err
}
