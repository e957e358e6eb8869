package squashfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/anchore/go-lzo"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/xi2/xz"
)

// The methods of compression that are read, as SquashFS numbers them.
const (
	byGzip = 1
	byLZO  = 3
	byXZ   = 4
	byLZ4  = 5
	byZstd = 6
)

var errTooLarge = errors.New("a block is larger than the file system allows")

// decompressor writes to dst what src becomes, and returns its size. More than dst takes is
// an error, and no memory is taken for it.
type decompressor func(dst, src []byte) (int, error)

func newDecompressor(m uint16) (decompressor, error) {
	switch m {
	case byGzip:
		return newZlib(), nil
	case byLZO:
		return func(dst, src []byte) (int, error) { return lzo.Decompress(src, dst) }, nil
	case byXZ:
		return newXZ()
	case byLZ4:
		return func(dst, src []byte) (int, error) { return lz4.UncompressBlock(src, dst) }, nil
	case byZstd:
		return newZstd()
	}
	return nil, &core.Error{
		Kind: core.Unsupported, Op: "read SIF file", Err: fmt.Errorf("its file system is compressed by method %d of SquashFS; gzip, lzo, xz, lz4 and zstd can be read", m),
		Remedy: "`apptainer build NEW.sif FILE` makes one with gzip.",
	}
}

func newZlib() decompressor {
	var z io.ReadCloser
	return func(dst, src []byte) (int, error) {
		var err error
		if r, is := z.(zlib.Resetter); is {
			err = r.Reset(bytes.NewReader(src), nil)
		} else {
			z, err = zlib.NewReader(bytes.NewReader(src))
		}
		if err != nil {
			return 0, err
		}
		return readAll(dst, z)
	}
}

func newXZ() (decompressor, error) {
	z, err := xz.NewReader(nil, largestBlock)
	if err != nil {
		return nil, err
	}
	return func(dst, src []byte) (int, error) {
		if err := z.Reset(bytes.NewReader(src)); err != nil {
			return 0, err
		}
		return readAll(dst, z)
	}, nil
}

func newZstd() (decompressor, error) {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(largestBlock), zstd.WithDecoderMaxWindow(8*largestBlock))
	if err != nil {
		return nil, err
	}
	return func(dst, src []byte) (int, error) {
		b, err := z.DecodeAll(src, dst[:0])
		if err == nil && len(b) > len(dst) {
			err = errTooLarge
		}
		return copy(dst, b), err
	}, nil
}

// readAll reads a stream to its end, which must come within dst.
func readAll(dst []byte, r io.Reader) (int, error) {
	var more [1]byte
	for n := 0; ; {
		to := dst[n:]
		if len(to) == 0 {
			to = more[:]
		}
		got, err := r.Read(to)
		if got > 0 && n == len(dst) {
			return n, errTooLarge
		}
		n += got
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
