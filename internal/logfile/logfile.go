// Package logfile holds log files of bounded size: a full file is renamed, and only one such
// older file is kept. It must not know runs or their directories.
package logfile

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// Limit is the largest size of a log file in bytes. The older one has as much.
const Limit = 4 << 20

// Older returns the name of the older file.
func Older(path string) string { return path + ".1" }

// File is a log file. Its methods may be called by several goroutines. Several processes
// that write to one file may each exceed the limit once.
type File struct {
	path  string
	limit int64

	mu   sync.Mutex
	f    *os.File
	size int64
}

// Open opens a log file to append to it.
func Open(path string) (*File, error) { return open(path, Limit) }

func open(path string, limit int64) (*File, error) {
	l := &File{path: path, limit: limit}
	return l, l.reopen()
}

func (l *File) reopen() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	l.f, l.size = f, info.Size()
	return nil
}

// Write appends data, undivided, to the file or to a new one. It drops the end of data that
// is larger than a file.
func (l *File) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return 0, fs.ErrClosed
	}
	kept := data[:min(int64(len(data)), l.limit)]
	if l.size > 0 && l.size+int64(len(kept)) > l.limit {
		if err := l.rotate(); err != nil {
			return 0, err
		}
	}
	n, err := l.f.Write(kept)
	l.size += int64(n)
	if err == nil {
		n = len(data)
	}
	return n, err
}

// rotate begins a new file, unless another process has begun one.
func (l *File) rotate() error {
	is, err := l.f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Lstat(l.path); err == nil && os.SameFile(is, named) {
		if err := os.Rename(l.path, Older(l.path)); err != nil {
			return err
		}
	}
	full := l.f
	if err := l.reopen(); err != nil {
		return err
	}
	return full.Close()
}

// Close closes the file.
func (l *File) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// Rotate renames a log of at least limit bytes. It is for programs that append to the file
// themselves.
func Rotate(path string, limit int64) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() < limit {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Rename(path, Older(path))
}
