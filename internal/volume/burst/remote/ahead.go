package remote

import (
	"context"
	"sync"
	"time"
)

const (
	// mostAhead is how many pieces of one file are read ahead at most: of 1 MiB each, they are more than
	// most lines have on the way.
	mostAhead = 4
	// aheadFor is how long a piece counts that was read ahead and has arrived: changes of others are seen.
	aheadFor = time.Second
)

// Ahead reads ahead of programs that read files in order. The next pieces of a file are asked for while the line has one
// on the way.
type Ahead struct{ room chan struct{} }

// NewAhead returns one that keeps so many pieces, of all files together.
func NewAhead(pieces int) *Ahead { return &Ahead{make(chan struct{}, pieces)} }

// Source returns a source of the same file.
func (a *Ahead) Source(s Source) Source {
	f := &aheadSource{Source: s, room: a.room, pieces: map[int64]*aheadPiece{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// aheadSource is a file that is read ahead.
type aheadSource struct {
	Source
	room chan struct{}
	ctx  context.Context // ends with Close
	stop context.CancelFunc

	mu      sync.Mutex
	next    int64 // where a program that reads in order continues
	ordered int   // reads in order so far
	pieces  map[int64]*aheadPiece
}

// aheadPiece is a part of a file that is read ahead. It has a place in the room until it was read, and is used or dropped.
type aheadPiece struct {
	size    int
	done    chan struct{} // closed once data and err are there
	data    []byte
	err     error
	read    time.Time // zero: it is on its way
	dropped bool
}

// Read implements Source. What was read ahead and failed is read again.
func (f *aheadSource) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if ready := f.advance(off, len(p)); ready != nil {
		select {
		case <-ready.done:
			defer f.drop(ready)
			if ready.err == nil {
				return copy(p, ready.data), nil
			}
		case <-ctx.Done():
			f.drop(ready)
		}
	}
	return f.Source.Read(ctx, p, off)
}

// advance notes a read, and asks for the pieces after it. It returns the piece that was asked for before.
func (f *aheadSource) advance(off int64, size int) *aheadPiece {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ordered++; off != f.next || size == 0 {
		f.ordered = 0
	}
	f.next = off + int64(size)
	var ready *aheadPiece
	for at, p := range f.pieces {
		switch {
		case at == off && f.ordered > 0 && p.size == size && (p.read.IsZero() || time.Since(p.read) < aheadFor):
			ready = p
		case at >= f.next && f.ordered > 0:
			continue
		default:
			f.dropLocked(p)
		}
		delete(f.pieces, at)
	}
	for i := range min(f.ordered-1, mostAhead) {
		f.ask(f.next+int64(i)*int64(size), int64(size))
	}
	return ready
}

// ask begins to read a piece, if there is one and room for it. Callers hold the lock.
func (f *aheadSource) ask(at, size int64) {
	size = min(size, f.Version().Size-at)
	if size <= 0 || f.pieces[at] != nil || f.ctx.Err() != nil {
		return
	}
	select {
	case f.room <- struct{}{}:
	default:
		return
	}
	p := &aheadPiece{size: int(size), done: make(chan struct{})}
	f.pieces[at] = p
	go func() {
		data := make([]byte, size)
		n, err := f.Source.Read(f.ctx, data, at)
		p.data, p.err = data[:n], err
		close(p.done)
		f.mu.Lock()
		defer f.mu.Unlock()
		if p.read = time.Now(); p.dropped {
			<-f.room
		}
	}()
}

func (f *aheadSource) drop(p *aheadPiece) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.dropLocked(p)
}

func (f *aheadSource) dropLocked(p *aheadPiece) {
	if p.dropped {
		return
	}
	if p.dropped = true; !p.read.IsZero() {
		<-f.room
	}
}

// Close implements Source.
func (f *aheadSource) Close() error {
	f.stop()
	f.mu.Lock()
	for _, p := range f.pieces {
		f.dropLocked(p)
	}
	clear(f.pieces)
	f.mu.Unlock()
	return f.Source.Close()
}
