package remote

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// mostAhead is how many pieces of one file are read ahead at most: of 1 MiB each, they are more than
	// most lines have on the way.
	mostAhead = 4
	// aheadFor is how long a piece counts after it was asked for: changes of others are seen.
	aheadFor = time.Second
)

// Ahead reads ahead of programs that read files in order. The next pieces of a file are asked for while the line has one
// on the way.
type Ahead struct {
	most int

	mu   sync.Mutex // of its files, too
	room []*aheadPiece
}

// NewAhead returns one that keeps so many pieces, of all files together.
func NewAhead(pieces int) *Ahead { return &Ahead{most: pieces} }

// Source returns a source of the same file.
func (a *Ahead) Source(s Source) Source {
	f := &aheadSource{Source: s, of: a, window: mostAhead, pieces: map[int64]*aheadPiece{}}
	f.ctx, f.stop = context.WithCancel(context.Background())
	return f
}

// reserve gives a piece a place, that of the oldest one if need be: of one that counts no more. Callers hold the lock.
func (a *Ahead) reserve(p *aheadPiece) bool {
	if len(a.room) >= a.most {
		i := slices.IndexFunc(a.room, func(p *aheadPiece) bool { return p.arrived && p.old() })
		if i < 0 {
			return false
		}
		a.room[i].drop()
	}
	a.room = append(a.room, p)
	return true
}

// leave frees the place of a piece. Callers hold the lock.
func (a *Ahead) leave(p *aheadPiece) {
	a.room = slices.DeleteFunc(a.room, func(other *aheadPiece) bool { return other == p })
}

// aheadSource is a file that is read ahead.
type aheadSource struct {
	Source
	of   *Ahead
	ctx  context.Context // ends with Close
	stop context.CancelFunc

	next    int64 // where a program that reads in order continues
	ordered int   // reads in order so far
	window  int   // pieces to ask for: fewer where they come, or are read, too late
	pieces  map[int64]*aheadPiece
}

// aheadPiece is a part of a file that is read ahead. It has a place in the room until it was read, and is used or dropped.
type aheadPiece struct {
	of      *aheadSource
	at      int64
	size    int
	asked   time.Time
	done    chan struct{} // closed once data and err are there
	data    []byte
	err     error
	arrived bool
	dropped bool
}

// old reports whether a piece counts no more.
func (p *aheadPiece) old() bool { return time.Since(p.asked) >= aheadFor }

// drop has nobody use a piece from now on. One that is on its way frees its place as it arrives. Callers hold the lock.
func (p *aheadPiece) drop() {
	if p.of.pieces[p.at] == p {
		delete(p.of.pieces, p.at)
	}
	if p.dropped = true; p.arrived {
		p.of.of.leave(p)
	}
}

// Read implements Source. What was read ahead and failed is read again.
func (f *aheadSource) Read(ctx context.Context, p []byte, off int64) (int, error) {
	if ready := f.advance(off, len(p)); ready != nil {
		defer f.drop(ready)
		select {
		case <-ready.done:
			if ready.err == nil {
				return copy(p, ready.data), nil
			}
		case <-ctx.Done():
		}
	}
	return f.Source.Read(ctx, p, off)
}

// advance notes a read, and asks for the pieces after it. It returns the piece that was asked for before.
func (f *aheadSource) advance(off int64, size int) *aheadPiece {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	if f.ordered++; off != f.next || size == 0 {
		f.ordered, f.window = 0, mostAhead
	}
	f.next = off + int64(size)
	var ready *aheadPiece
	for at, p := range f.pieces {
		here := at == off && f.ordered > 0 && p.size == size
		switch {
		case here && !p.old():
			ready = p
			f.window = min(f.window+1, mostAhead)
			delete(f.pieces, at)
		case here:
			f.window /= 2
			p.drop()
		case at < f.next, f.ordered == 0, p.old():
			p.drop()
		}
	}
	for i := range min(f.ordered-1, f.window) {
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
	p := &aheadPiece{of: f, at: at, size: int(size), asked: time.Now(), done: make(chan struct{})}
	if !f.of.reserve(p) {
		return
	}
	f.pieces[at] = p
	go func() {
		data := make([]byte, size)
		n, err := f.Source.Read(f.ctx, data, at)
		p.data, p.err = data[:n], err
		close(p.done)
		f.of.mu.Lock()
		defer f.of.mu.Unlock()
		if p.arrived = true; p.dropped {
			f.of.leave(p)
		}
	}()
}

func (f *aheadSource) drop(p *aheadPiece) {
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	p.drop()
}

// Close implements Source.
func (f *aheadSource) Close() error {
	f.stop()
	f.of.mu.Lock()
	for _, p := range f.pieces {
		p.drop()
	}
	f.of.mu.Unlock()
	return f.Source.Close()
}
