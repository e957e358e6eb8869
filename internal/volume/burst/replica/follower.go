package replica

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// Follower keeps a copy of a leader's journal.
type Follower struct {
	// ID is the name of its copy.
	ID     string
	Mirror *buffer.Mirror
	Store  Store
	// Dial connects with the leader, and greets it.
	Dial   func(ctx context.Context, hello Hello) (io.ReadWriteCloser, error)
	Timing Timing
	// NoteName is the file for the leader's note.
	NoteName string
	Logger   *slog.Logger

	mu      sync.Mutex
	last    time.Time // when something has come
	busy    bool      // something is being written to the copy
	stopped bool      // nothing is confirmed any more
}

// mirrorError is about the copy, which its disk cannot keep.
type mirrorError struct{ error }

func (e mirrorError) Unwrap() error { return e.error }

// Run follows the leader, until the copy leads itself: nil. Otherwise the error is why it never will.
func (f *Follower) Run(ctx context.Context) error {
	f.heard(false)
	for ctx.Err() == nil {
		err := f.connected(ctx)
		if errors.Is(err, ErrDrained) || errors.As(err, new(mirrorError)) {
			return err
		}
		if err != nil && ctx.Err() == nil {
			f.Logger.Debug("follow the leader", "err", err)
		}
		for ctx.Err() == nil && f.silent() >= f.Timing.Lost {
			now, err := takeover(ctx, f.Store, f.ID, f.stop)
			if err == nil {
				f.Logger.Warn("this copy of the volume leads", "term", now.Term)
				return nil
			}
			if errors.Is(err, ErrExcluded) || errors.Is(err, ErrSuperseded) {
				return err
			}
			if !f.isStopped() { // the remote is away: the leader may come back
				break
			}
			core.BestEffort(core.Sleep(ctx, f.Timing.Alive))
		}
		if err := core.Sleep(ctx, f.Timing.Alive/5); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// heard notes that something has come, and whether that is being written.
func (f *Follower) heard(busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last, f.busy = time.Now(), busy
}

// silent is how long nothing has come.
func (f *Follower) silent() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.busy {
		return 0
	}
	return time.Since(f.last)
}

func (f *Follower) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
}

func (f *Follower) isStopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
}

// connected follows the leader on one connection, until that ends or nothing comes.
func (f *Follower) connected(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dialing, enough := context.WithTimeout(ctx, f.Timing.Lost)
	conn, err := f.Dial(dialing, Hello{Copy: f.ID, At: f.Mirror.At()})
	enough()
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	var writing sync.Mutex
	w := bufio.NewWriter(conn)
	write := func(kind byte, list ...uint64) error {
		writing.Lock()
		defer writing.Unlock()
		return errors.Join(numbers(w, kind, list...), w.Flush())
	}
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		for core.Sleep(ctx, f.Timing.Alive) == nil {
			if f.silent() >= f.Timing.Lost || write(frameAlive) != nil {
				cancel()
			}
		}
	}()
	err = f.follow(bufio.NewReaderSize(conn, pieceSize/4), write)
	cancel()
	conn.Close()
	<-alive
	return err
}

// follow writes what the leader sends to the copy, and confirms it.
func (f *Follower) follow(r *bufio.Reader, write func(kind byte, list ...uint64) error) error {
	for {
		got, err := readFrame(r)
		if err != nil {
			return err
		}
		f.heard(true)
		switch got.kind {
		case frameBytes, frameIndex:
			err = f.Mirror.Put(got.piece)
		case frameNote:
			err = f.Mirror.Note(f.NoteName, got.note)
		case frameDrained:
			return ErrDrained
		case frameAsk:
			if got.durable {
				err = f.Mirror.Sync()
			}
		}
		f.heard(false) // what has come meanwhile is read next
		if err != nil {
			return mirrorError{err}
		}
		if got.kind == frameAsk && got.round > 0 {
			at := f.Mirror.At()
			if err := write(frameHave, got.round, at.Segment, uint64(at.At)); err != nil { // never negative
				return err
			}
		}
	}
}
