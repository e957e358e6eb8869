package fsutil

import (
	"io"
	"io/fs"
)

// Tail reads at most the last limit bytes of a plain file, however large that is.
func (r *Root) Tail(name string, limit int64) ([]byte, error) {
	f, err := r.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	from := max(0, info.Size()-limit)
	data, err := io.ReadAll(io.NewSectionReader(f, from, limit)) // what there is: it may have shrunk
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: r.Path(name), Err: err}
	}
	return data, nil
}

// Tail is the method Tail of the directory dir, which the caller trusts.
func Tail(dir, name string, limit int64) ([]byte, error) {
	r, err := OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.Tail(name, limit)
}
