package image

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/image/unpack"
	"github.com/bee-hpc/bee/internal/wire"
	"github.com/klauspost/compress/zstd"
)

// A flat stream is, under zstd, the image's record and then its tree as a tar
// stream, cut into pieces: each is its length (4 bytes, little endian) and
// content. A length of 0 ends it, and the SHA-256 of all content follows.

// maxPiece bounds a piece, and maxFlatWindow what its decompression keeps, in bytes.
const (
	maxPiece      = 1 << 20
	maxFlatWindow = 8 << 20
)

// ExportFlat writes the flattened image as one stream, for other hosts.
func (s *Store) ExportFlat(ctx context.Context, id string, w io.Writer) error {
	r, err := s.read(id)
	if err != nil {
		return err
	}
	_, release, err := s.Tree(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(1<<20))
	if err != nil {
		return err
	}
	r.Layers = nil // they do not travel
	if err := wire.WriteMessage(z, r); err != nil {
		return err
	}
	p := &pieceWriter{w: z, sum: sha256.New(), buf: make([]byte, 4, 4+maxPiece)}
	if err := (content{s.dir, r}).writeTar(ctx, p); err != nil {
		return fmt.Errorf("send image %s: %w", r.Ref, err)
	}
	return errors.Join(p.end(), z.Close())
}

// ImportFlat imports what ExportFlat wrote, unpacking while it comes, and
// reads it to its end. The image becomes visible only when the whole stream has
// the digest that its sender gives.
func (s *Store) ImportFlat(ctx context.Context, from io.Reader) (core.Image, error) {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(2), zstd.WithDecoderMaxWindow(maxFlatWindow))
	if err != nil {
		return core.Image{}, err
	}
	defer z.Close()
	r, err := readRecord(z)
	if err != nil {
		return core.Image{}, err
	}
	received := false
	i, err := s.makeOnce(ctx, r, PullOptions{}, func() (core.Image, error) {
		received = true
		return s.receive(ctx, r, z)
	})
	if err == nil && !received { // another node on the same cache was quicker; others may read the same stream
		z.Close()
		_, err = io.Copy(io.Discard, from) // which is much shorter than what it holds
	}
	return i, err
}

// receive unpacks the tree of an image that ExportFlat wrote; the caller has the lock to make it.
func (s *Store) receive(ctx context.Context, r record, z io.Reader) (core.Image, error) {
	if err := s.dir.sweep(); err != nil {
		s.log.Debug("sweep image cache", "err", err)
	}
	w, err := s.dir.newWorkplace()
	if err != nil {
		return core.Image{}, err
	}
	defer w.end()
	if err := os.Mkdir(w.path(treeName), 0o700); err != nil {
		return core.Image{}, err
	}
	u, err := unpack.New(w.path(treeName), s.limits)
	if err != nil {
		return core.Image{}, err
	}
	defer u.Close()
	pieces := &pieceReader{r: z}
	got, err := u.Stream(ctx, pieces, io.NopCloser(nil))
	if err != nil {
		return core.Image{}, fmt.Errorf("receive image %s: %w", r.Ref, err)
	}
	if want := "sha256:" + hex.EncodeToString(pieces.want); want != got {
		return core.Image{}, &core.Error{Kind: core.Transient, Op: "receive image", Object: r.Ref, Err: errors.New("the stream was damaged on its way"), Remedy: core.RemedyAgain}
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(z, 1)); n > 0 || err != nil {
		return core.Image{}, &core.Error{Kind: core.Invalid, Op: "receive image", Object: r.Ref, Err: errors.Join(errors.New("it does not end behind its digest"), err)}
	}
	r.Created, r.Layers = time.Now(), nil
	return s.finish(r, u, w)
}

// maxRef is the longest reference of an image, in bytes.
const maxRef = 4096

// readRecord reads what is reported of an image before its tree.
func readRecord(z io.Reader) (record, error) {
	var r record
	if err := wire.ReadMessage(z, &r); err != nil {
		return r, fmt.Errorf("read image: %w", err)
	}
	invalid := func(why string) (record, error) {
		return record{}, &core.Error{Kind: core.Invalid, Op: "read image", Object: core.Printable(r.ID, maxRef), Err: errors.New(why), Remedy: core.RemedyVersions}
	}
	switch {
	case !validID(r.ID):
		return invalid("its id is no digest")
	case len(r.Ref) > maxRef || core.Printable(r.Ref, maxRef) != r.Ref:
		return invalid("its reference is none")
	}
	return r, nil
}

// pieceWriter cuts a stream into pieces.
type pieceWriter struct {
	w   io.Writer
	sum hash.Hash
	buf []byte // room for the length, then content
}

func (p *pieceWriter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		took := min(len(b), cap(p.buf)-len(p.buf))
		p.buf, b = append(p.buf, b[:took]...), b[took:]
		if len(p.buf) == cap(p.buf) {
			if err := p.flush(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

func (p *pieceWriter) flush() error {
	if len(p.buf) == 4 {
		return nil
	}
	p.sum.Write(p.buf[4:])
	binary.LittleEndian.PutUint32(p.buf, uint32(len(p.buf)-4))
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:4]
	return err
}

func (p *pieceWriter) end() error {
	err := p.flush()
	_, werr := p.w.Write(append(make([]byte, 4), p.sum.Sum(nil)...))
	return errors.Join(err, werr)
}

// pieceReader joins pieces; want is the digest behind the last one.
type pieceReader struct {
	r    io.Reader
	left int
	want []byte
}

func (p *pieceReader) Read(b []byte) (int, error) {
	if p.want != nil {
		return 0, io.EOF
	}
	if p.left == 0 {
		var head [4]byte
		if _, err := io.ReadFull(p.r, head[:]); err != nil {
			return 0, unexpected(err)
		}
		n := binary.LittleEndian.Uint32(head[:])
		if n > maxPiece {
			return 0, errors.New("a piece is too long")
		}
		if n == 0 {
			want := make([]byte, sha256.Size)
			if _, err := io.ReadFull(p.r, want); err != nil {
				return 0, unexpected(err)
			}
			p.want = want
			return 0, io.EOF
		}
		p.left = int(n)
	}
	n, err := p.r.Read(b[:min(len(b), p.left)])
	p.left -= n
	return n, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
