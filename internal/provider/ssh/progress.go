package ssh

import "io"

// readProgress tells how much was read through it.
type readProgress struct {
	io.Reader
	n    int64
	told func(int64)
}

func (r *readProgress) Read(b []byte) (int, error) {
	n, err := r.Reader.Read(b)
	r.n += int64(n)
	if r.told != nil {
		r.told(r.n)
	}
	return n, err
}
