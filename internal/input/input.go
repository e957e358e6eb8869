// Package input stores what the command of a run reads from its user, until the head has
// passed it on: the connection over which it goes may break. It knows nothing of either.
package input

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

const (
	// Window bounds what was read here and has not reached the command yet, in bytes.
	Window = 256 << 10
	// Piece is the most that is sent at once, in bytes.
	Piece = 32 << 10
)

// Input is what one command reads. Readers of it come one after the other.
type Input struct {
	// Size returns rows and columns of the user's terminal; nil: there is none.
	Size func() [2]uint16
	// Resized gets a value when they have changed.
	Resized <-chan struct{}
	// Attached is called when the command can read, and what it returns when it no longer
	// can; nil: nobody wants to know.
	Attached func() (detached func())

	from  io.Reader
	begin sync.Once

	mu      sync.Mutex
	changed chan struct{} // closed and replaced at each change
	first   int64         // offset of kept
	kept    []byte
	end     error // of from; nil: not yet
}

// New returns the input that comes from a reader, which is read once Next is called.
func New(from io.Reader) *Input { return &Input{from: from, changed: make(chan struct{})} }

// change calls f, and wakes those that wait for a change.
func (i *Input) change(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
	close(i.changed)
	i.changed = make(chan struct{})
}

// read reads all of the input, as far as there is room.
func (i *Input) read() {
	buf := make([]byte, Piece)
	for {
		n, err := i.from.Read(buf)
		i.change(func() { i.kept, i.end = append(i.kept, buf[:n]...), err })
		if err != nil {
			return
		}
		for {
			i.mu.Lock()
			full, changed := len(i.kept) > Window, i.changed
			i.mu.Unlock()
			if !full {
				break
			}
			<-changed
		}
	}
}

// Next waits for input after an offset. io.EOF is its end; any other error means that the
// rest of it is lost.
func (i *Input) Next(ctx context.Context, offset int64) ([]byte, error) {
	i.begin.Do(func() { go i.read() })
	for {
		i.mu.Lock()
		at, changed, end := offset-i.first, i.changed, i.end
		if at < 0 || at > int64(len(i.kept)) {
			defer i.mu.Unlock()
			return nil, fmt.Errorf("read the input at byte %d: only %d to %d are there", offset, i.first, i.first+int64(len(i.kept)))
		}
		piece := append([]byte(nil), i.kept[at:min(at+Piece, int64(len(i.kept)))]...)
		i.mu.Unlock()
		switch {
		case len(piece) > 0:
			return piece, nil
		case errors.Is(end, io.EOF):
			return nil, io.EOF
		case end != nil:
			return nil, fmt.Errorf("read the input: %w", end)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Written drops what has reached the command: all before an offset.
func (i *Input) Written(offset int64) {
	i.change(func() {
		if n := min(offset-i.first, int64(len(i.kept))); n > 0 {
			i.kept, i.first = append([]byte(nil), i.kept[n:]...), i.first+n
		}
	})
}
