package unpack

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync"
)

// Blob applies a layer as it comes, whatever its compression. Decompression,
// hashing and writing continue at once. It gives the digest of the uncompressed
// stream, read to its very end. It closes r, which has to end a Read then.
func (u *Unpacker) Blob(ctx context.Context, r io.ReadCloser) (diffID string, err error) {
	defer r.Close()
	z, _, err := Decompress(r, u.limits)
	if err != nil {
		return "", fmt.Errorf("decompress layer: %w", err)
	}
	defer z.Close()
	return u.Stream(ctx, z, r)
}

// mostPadding bounds what may follow the archive in a layer, in bytes: programs pad to the
// size of a tape's block.
const mostPadding = 64 << 20

// Stream is Blob for a layer that is not compressed. Closing source, from which it comes,
// has to end a Read.
func (u *Unpacker) Stream(ctx context.Context, r io.Reader, source io.Closer) (diffID string, err error) {
	p := newPipeline(r, sha256.New())
	err = u.Layer(ctx, p)
	if err == nil { // what tar does not read counts for the digest
		var n int64
		if n, err = io.Copy(io.Discard, io.LimitReader(p, mostPadding+1)); n > mostPadding {
			err = hostile("the end", fmt.Errorf("more than %d bytes follow the last entry", mostPadding))
		}
	}
	source.Close()
	p.stop()
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(p.sum.Sum(nil)), nil
}

const (
	pipeBuffers = 8
	pipeSize    = 512 << 10
)

// pipeline reads ahead in one goroutine and hashes in another.
type pipeline struct {
	sum   hash.Hash
	ready chan []byte
	free  chan []byte
	quit  chan struct{}
	done  sync.WaitGroup
	err   error // of the source; set before ready is closed
	buf   []byte
	left  []byte
}

func newPipeline(r io.Reader, sum hash.Hash) *pipeline {
	p := &pipeline{sum: sum, ready: make(chan []byte, pipeBuffers), free: make(chan []byte, pipeBuffers), quit: make(chan struct{})}
	hashing := make(chan []byte, pipeBuffers)
	for range pipeBuffers {
		p.free <- make([]byte, pipeSize)
	}
	p.done.Add(2)
	go func() {
		defer p.done.Done()
		defer close(hashing)
		for {
			var b []byte
			select {
			case b = <-p.free:
			case <-p.quit:
				return
			}
			n, err := fill(r, b[:pipeSize])
			if n > 0 {
				hashing <- b[:n]
			}
			if err != nil {
				if err != io.EOF { //nolint:errorlint // one that is wrapped is no end
					p.err = err
				}
				return
			}
		}
	}()
	go func() {
		defer p.done.Done()
		defer close(p.ready)
		for b := range hashing {
			p.sum.Write(b)
			p.ready <- b // never blocks: there are no more buffers than places
		}
	}()
	return p
}

// fill is io.ReadFull, but for errors, which come as they are: a stream that
// was cut is not one that ends.
func fill(r io.Reader, b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = r.Read(b[n:])
		n += more
	}
	return n, err
}

func (p *pipeline) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		if p.buf != nil {
			p.free <- p.buf
			p.buf = nil
		}
		next, ok := <-p.ready
		if !ok {
			if p.err != nil {
				return 0, p.err
			}
			return 0, io.EOF
		}
		p.buf, p.left = next, next
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// stop ends the goroutines, once the source's Read returns.
func (p *pipeline) stop() {
	close(p.quit)
	p.done.Wait()
}
