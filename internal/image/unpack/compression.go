package unpack

import (
	"bufio"
	"bytes"
	"compress/bzip2"
	"errors"
	"fmt"
	"io"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/xi2/xz"
)

// Bounds of the memory that a stream may ask of its reader, in bytes.
const (
	maxWindow     = 256 << 20 // of zstd: what `zstd --long` takes
	maxDictionary = 256 << 20 // of xz: `xz -9` takes 64 MiB
)

// Decompress finds the compression of a stream by its first bytes: gzip, zstd, xz,
// bzip2, or none. A stream that is larger than the limits' ratio allows ends with an
// error. Close frees what it took, not r.
func Decompress(r io.Reader, l Limits) (content io.ReadCloser, compressed bool, err error) {
	in := &counted{r: r}
	b := bufio.NewReaderSize(in, 256<<10)
	magic, _ := b.Peek(6)
	var z io.ReadCloser
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		z, err = newMembers(b)
	case bytes.HasPrefix(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}) || isSkippable(magic):
		var d *zstd.Decoder
		if d, err = zstd.NewReader(b, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(2)); err == nil {
			z = d.IOReadCloser()
		}
	case bytes.Equal(magic, []byte("\xfd7zXZ\x00")):
		var d *xz.Reader
		if d, err = xz.NewReader(b, maxDictionary); err == nil {
			z = io.NopCloser(d)
		}
	case isBzip2(magic):
		z = io.NopCloser(bzip2.NewReader(b))
	default:
		if name := unknownCompression(magic); name != "" {
			return nil, true, &core.Error{
				Kind: core.Unsupported, Op: "decompress", Err: errors.New("it is compressed by " + name),
				Remedy: "Compress it by gzip, zstd, xz or bzip2, or not at all.",
			}
		}
		return io.NopCloser(b), false, nil
	}
	if err != nil {
		return nil, true, err
	}
	return &ratioReader{ReadCloser: z, in: in, limits: l}, true, nil
}

// isSkippable reports whether a frame of zstd begins that holds no data, as pzstd and
// zstd:chunked write them.
func isSkippable(magic []byte) bool {
	return len(magic) >= 4 && magic[0]&0xf0 == 0x50 && bytes.Equal(magic[1:4], []byte{0x2a, 0x4d, 0x18})
}

func isBzip2(magic []byte) bool {
	return len(magic) >= 4 && string(magic[:3]) == "BZh" && magic[3] >= '1' && magic[3] <= '9'
}

// unknownCompression is the name of a compression that is not read; "": it is none.
func unknownCompression(magic []byte) string {
	for prefix, name := range map[string]string{"\x04\x22\x4d\x18": "lz4", "LZIP": "lzip", "\x89LZO\x00": "lzop", "\x1f\x9d": "compress"} {
		if bytes.HasPrefix(magic, []byte(prefix)) {
			return name
		}
	}
	return ""
}

// members reads the members of a gzip stream, as pigz and estargz write several, and
// ignores zeros behind the last one, as gzip does.
type members struct {
	*gzip.Reader

	b *bufio.Reader
}

func newMembers(b *bufio.Reader) (*members, error) {
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{z, b}, nil
}

// Read implements io.Reader.
func (m *members) Read(p []byte) (int, error) {
	for {
		n, err := m.Reader.Read(p)
		if n > 0 && errors.Is(err, io.EOF) {
			err = nil
		}
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		next, err := m.b.Peek(1)
		switch {
		case errors.Is(err, io.EOF):
			return 0, io.EOF
		case err != nil:
			return 0, err
		case next[0] == 0:
			return 0, onlyZeros(m.b)
		}
		if err := m.Reset(m.b); err != nil {
			return 0, err
		}
		m.Multistream(false)
	}
}

// onlyZeros reads to the end; io.EOF is the answer for nothing but zeros.
func onlyZeros(r io.Reader) error {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if !isZero(buf[:n]) {
			return gzip.ErrHeader
		}
		if err != nil {
			return err
		}
	}
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

// ratioReader ends a bomb. Zeros do not count: they become holes, which take no space,
// and honest images have gigabytes of them, such as the lastlog of a high uid.
type ratioReader struct {
	io.ReadCloser
	in     *counted
	n      int64
	limits Limits
}

func (r *ratioReader) Read(b []byte) (int, error) {
	n, err := r.ReadCloser.Read(b)
	if !isZero(b[:n]) {
		r.n += int64(n)
	}
	if r.limits.Ratio > 0 && r.n > r.limits.RatioFrom && r.n/r.limits.Ratio > r.in.n {
		return 0, &core.Error{
			Kind: core.Invalid, Op: "decompress", Err: fmt.Errorf("it is more than %d times larger than its compressed form", r.limits.Ratio),
			Remedy: "The image is damaged or hostile; get it from where it was made.",
		}
	}
	return n, err
}
