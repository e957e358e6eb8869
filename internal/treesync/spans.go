package treesync

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
)

// A file is cut into chunks span by span, each of them afresh, so that either end
// can have several processors cut and hash one file. Behind an insertion that costs
// a chunk or two of each span.

// spanSize is the length of spans: long beside a chunk.
func (c chunker) spanSize() int64 { return max(4<<20, 2*int64(c.Most())) }

// spanEnd is where the span ends in which an offset lies.
func (c chunker) spanEnd(at int64) int64 { return at - at%c.spanSize() + c.spanSize() }

// span is what was read of one, cut.
type span struct {
	buf    []byte
	at     int64
	data   []byte // less than was wanted where the file has become shorter
	chunks []named
	err    error
}

// named is a chunk, by where it ends in its span's data.
type named struct {
	end  int
	name sum
}

func (s *span) read(f io.ReaderAt, from, to int64, c chunker) {
	if int64(cap(s.buf)) < to-from {
		s.buf = make([]byte, to-from)
	}
	n, err := f.ReadAt(s.buf[:to-from], from)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	s.at, s.data, s.chunks, s.err = from, s.buf[:n], s.chunks[:0], err
	for at := 0; at < n && err == nil; {
		end := at + c.Cut(s.data[at:])
		s.chunks = append(s.chunks, named{end: end})
		c.name(&s.chunks[len(s.chunks)-1].name, s.data[at:end])
		at = end
	}
}

// end is the offset behind what was read.
func (s *span) end() int64 { return s.at + int64(len(s.data)) }

// each gives the chunks.
func (s *span) each(do func(at int64, b []byte, name sum) error) error {
	begin := 0
	for _, n := range s.chunks {
		if err := do(s.at+int64(begin), s.data[begin:n.end], n.name); err != nil {
			return err
		}
		begin = n.end
	}
	return s.err
}

// eachChunk gives the chunks of a stretch of f in order, and the offset that it came
// to: less than to where the file has become shorter. Several processors read ahead.
// A chunk is valid until do returns; s is there to be used again and again.
func eachChunk(ctx context.Context, f io.ReaderAt, from, to int64, c chunker, s *span, do func(at int64, b []byte, name sum) error) (int64, error) {
	if err := ctx.Err(); err != nil {
		return from, err
	}
	if c.spanEnd(from) >= to {
		s.read(f, from, to, c)
		return s.end(), s.each(do)
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	spans := (to-1)/c.spanSize() - from/c.spanSize() + 1
	workers := make([]chan *span, min(int64(runtime.GOMAXPROCS(0))+1, mostWorkers, spans))
	for i := range workers {
		workers[i] = make(chan *span) // on which one goes to and fro
		begin := from
		if i > 0 {
			begin = c.spanEnd(from) + int64(i-1)*c.spanSize()
		}
		wg.Go(func() { ahead(ctx, workers[i], f, begin, to, int64(len(workers)), c) })
	}
	for i := 0; from < to; i = (i + 1) % len(workers) {
		select {
		case s = <-workers[i]:
		case <-ctx.Done():
			return from, ctx.Err()
		}
		if err := s.each(do); err != nil {
			return from, err
		}
		if from = s.end(); from < min(c.spanEnd(s.at), to) {
			break
		}
		select {
		case workers[i] <- s:
		case <-ctx.Done():
			return from, ctx.Err()
		}
	}
	return from, nil
}

// mostWorkers bounds the memory that reading ahead takes.
const mostWorkers = 8

// ahead reads every n-th span, from the one in which an offset lies.
func ahead(ctx context.Context, work chan *span, f io.ReaderAt, from, to, n int64, c chunker) {
	s := &span{}
	for at := from; at < to; at = c.spanEnd(at) + (n-1)*c.spanSize() {
		s.read(f, at, min(c.spanEnd(at), to), c)
		select {
		case work <- s:
		case <-ctx.Done():
			return
		}
		select {
		case s = <-work:
		case <-ctx.Done():
			return
		}
	}
}
