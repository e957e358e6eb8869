package treesync

import (
	"context"
	"io"
)

// Stock returns what a ChunkSink has kept.
type Stock interface {
	// Size of a chunk, in bytes; false where there is none of that name.
	Size(name Name) (int, bool)
	// Get gives chunks, in the order of their names, each checked against its
	// name.
	Get(ctx context.Context, names []Name) ([][]byte, error)
}

// Batches of chunks are asked for together; while one is sent, the next is got.
const (
	batchBytes   = 16 << 20
	batchRecords = 1 << 16
)

// batch is a stretch of a stream with names in place of data.
type batch struct {
	kinds    []byte
	contents [][]byte
	missing  []Name // which the receiver does not have, in order
	bytes    int
	chunks   [][]byte
	err      error
}

// Unshelve writes to w, for Receive or ReceiveOver, the stream of which Shelve has
// left r, with the data that the receiver does not know.
func Unshelve(ctx context.Context, w io.Writer, r io.Reader, known *Known, stock Stock, progress func(done int64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := make(chan *batch, 1)
	go func() {
		defer close(ready)
		if err := eachBatch(ctx, r, known, stock, ready); err != nil {
			select {
			case ready <- &batch{err: err}:
			case <-ctx.Done():
			}
		}
	}()
	e := newEncoder(w, kindOne, progress)
	if known != nil && !known.total {
		e.known = known
	}
	ended := false
	for b := range ready {
		err := b.err
		if err == nil {
			ended, err = e.batch(b)
		}
		if err != nil {
			e.abort(err)
			return err
		}
	}
	if !ended {
		err := cut(io.EOF)
		e.abort(err)
		return fail("send", "a tree", err)
	}
	return nil
}

func eachBatch(ctx context.Context, r io.Reader, known *Known, stock Stock, out chan<- *batch) error {
	in := &blocks{r: r, table: castagnoli()}
	if _, err := in.magic(); err != nil {
		return err
	}
	b, ended := &batch{}, false
	send := func() error {
		var err error
		if len(b.missing) > 0 {
			if b.chunks, err = stock.Get(ctx, b.missing); err != nil {
				return err
			}
		}
		select {
		case out <- b:
		case <-ctx.Done():
			return ctx.Err()
		}
		b = &batch{}
		return nil
	}
	for !ended {
		block, err := in.next()
		if err != nil {
			return err
		}
		err = records(block, func(kind byte, content []byte) error {
			b.kinds, b.contents = append(b.kinds, kind), append(b.contents, append([]byte(nil), content...))
			b.bytes += len(content)
			ended = kind == recTrailer
			if kind == recSame {
				if len(content) != 8+len(sum{}) {
					return errRecord
				}
				name := sum(content[8:])
				if known == nil || !known.has(name) {
					size, ok := stock.Size(name)
					if !ok {
						return errRecord
					}
					b.missing, b.bytes = append(b.missing, name), b.bytes+size
				}
			}
			if b.bytes >= batchBytes || len(b.kinds) >= batchRecords {
				return send()
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return send()
}

func (k *Known) has(name sum) bool {
	_, is := k.sums[name]
	return is
}

// batch writes one, and reports whether it was the last.
func (e *encoder) batch(b *batch) (ended bool, err error) {
	next := 0
	for i, kind := range b.kinds {
		content := b.contents[i]
		switch {
		case kind == recTrailer:
			return true, e.end()
		case kind == recSame && (e.known == nil || !e.known.has(sum(content[8:]))):
			err = e.pieces(content[:8], b.chunks[next])
			next++
		default:
			err = e.record(kind, content)
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}
