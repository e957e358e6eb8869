package unpack

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// maxWindow is how much of its past a zstd stream may refer to, in bytes: what
// `zstd --long` takes, and no more memory than that.
const maxWindow = 256 << 20

// Decompress tells gzip, zstd and plain streams apart by their first bytes. What
// is larger than the limits' ratio allows ends with an error. Close frees what it
// took, not r.
func Decompress(r io.Reader, l Limits) (content io.ReadCloser, compressed bool, err error) {
	in := &counted{r: r}
	b := bufio.NewReaderSize(in, 256<<10)
	magic, _ := b.Peek(4)
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(b)
		if err != nil {
			return nil, true, err
		}
		return &ratioReader{ReadCloser: z, in: in, limits: l}, true, nil
	case len(magic) == 4 && magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd:
		z, err := zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2))
		if err != nil {
			return nil, true, err
		}
		return &ratioReader{ReadCloser: z.IOReadCloser(), in: in, limits: l}, true, nil
	}
	return io.NopCloser(b), false, nil
}

// Blob applies a layer as it comes, whatever its compression. Decompression,
// hashing and writing go on at once. It gives the digest of the uncompressed
// stream, read to its very end. It closes r, which has to end a Read then.
func (u *Unpacker) Blob(ctx context.Context, r io.ReadCloser) (diffID string, err error) {
	defer r.Close()
	z, _, err := Decompress(r, u.limits)
	if err != nil {
		return "", fmt.Errorf("decompress layer: %w", err)
	}
	p := newPipeline(z, sha256.New())
	err = u.Layer(ctx, p)
	if err == nil {
		_, err = io.Copy(io.Discard, p) // what tar does not read counts for the digest
	}
	r.Close()
	p.stop()
	z.Close()
	if err != nil {
		return "", err
	}
	return "sha256:" + hex.EncodeToString(p.sum.Sum(nil)), nil
}

// counted counts what was read. Only the goroutine that reads looks.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// ratioReader ends a bomb.
type ratioReader struct {
	io.ReadCloser
	in     *counted
	n      int64
	limits Limits
}

func (r *ratioReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	r.n += int64(n)
	if r.limits.Ratio > 0 && r.n > r.limits.RatioFrom && r.n/r.limits.Ratio > r.in.n {
		return 0, &core.Error{
			Kind: core.Invalid, Op: "decompress", Err: fmt.Errorf("it is more than %d times larger than its compressed form", r.limits.Ratio),
			Remedy: "The image is damaged or hostile; get it from where it was made.",
		}
	}
	return n, err
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
