package image

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// blob applies a stored layer, whatever its compression.
func (u *unpacker) blob(ctx context.Context, b blob) error {
	f, err := os.Open(b.path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, done, err := decompress(f)
	if err != nil {
		return fmt.Errorf("read layer %s: %w", b.digest, err)
	}
	defer done()
	return u.layer(ctx, r)
}

// decompress tells the compression by its first bytes.
func decompress(f io.Reader) (io.Reader, func(), error) {
	r := bufio.NewReaderSize(f, 1<<20)
	magic, _ := r.Peek(4)
	switch {
	case len(magic) >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		return z, func() { z.Close() }, nil
	case len(magic) == 4 && magic[0] == 0x28 && magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd:
		z, err := zstd.NewReader(r)
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return r, func() {}, nil
}
