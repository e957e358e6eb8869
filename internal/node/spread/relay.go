package spread

import (
	"context"
	"io"
	"os"
	"sync"
)

// relay is a stream that is passed on while it still comes in: the side that writes
// it need not wait for those who read, and each of them gets it from its start.
// It is in a file without a name, so that a crash leaves nothing.
type relay struct {
	mu   sync.Mutex
	f    *os.File
	size int64
	done bool
	err  error
	wake chan struct{} // closed and replaced at each change
}

func newRelay(dir string) (*relay, error) {
	f, err := os.CreateTemp(dir, "relay-")
	if err != nil {
		return nil, err
	}
	return &relay{f: f, wake: make(chan struct{})}, os.Remove(f.Name())
}

// relayOf is a relay of a file that is complete.
func relayOf(f *os.File) (*relay, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return &relay{f: f, size: info.Size(), done: true, wake: make(chan struct{})}, nil
}

// Write appends to the stream.
func (r *relay) Write(b []byte) (int, error) {
	n, err := r.f.WriteAt(b, r.size) // one writer: size is its own
	r.change(func() { r.size += int64(n) })
	return n, err
}

// finish ends the stream; with an error, readers get that.
func (r *relay) finish(err error) {
	r.change(func() { r.done, r.err = true, err })
}

func (r *relay) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.wake)
	r.wake = make(chan struct{})
}

// sendTo writes the whole stream to w.
func (r *relay) sendTo(ctx context.Context, w io.Writer) error {
	buf := make([]byte, 256<<10)
	for offset := int64(0); ; {
		r.mu.Lock()
		size, done, err, wake := r.size, r.done, r.err, r.wake
		r.mu.Unlock()
		if offset < size {
			n, err := r.f.ReadAt(buf[:min(int64(len(buf)), size-offset)], offset)
			if n > 0 {
				if _, err := w.Write(buf[:n]); err != nil {
					return err
				}
				offset += int64(n)
				continue
			}
			return err
		}
		if done {
			return err
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (r *relay) close() { r.f.Close() }
