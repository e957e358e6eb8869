// Package digest computes digests of files that are published on a remote. Chunks of zeros
// do not count: a hole has the same digest as the zeros that a program reads there.
package digest

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// chunk is how many bytes one digest of a part is of. It is part of the format.
const chunk = 4 << 20

// prefix names the format of a digest.
const prefix = "zsha256:"

// Of computes the digest of a content of a size, which read fills p with from an offset on.
// anything reports whether something else than zeros may be between two offsets; nil: yes.
func Of(ctx context.Context, size int64, anything func(off, end int64) bool, read func(p []byte, off int64) error) (string, error) {
	h := sha256.New()
	var head [8]byte
	number := func(n int64) {
		binary.BigEndian.PutUint64(head[:], uint64(n)) // a size or an offset
		h.Write(head[:])
	}
	number(size)
	buf := make([]byte, min(chunk, size))
	for off := int64(0); off < size; off += chunk {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		p := buf[:min(chunk, size-off)]
		if anything != nil && !anything(off, off+int64(len(p))) {
			continue
		}
		if err := read(p, off); err != nil {
			return "", err
		}
		if zeros(p) {
			continue
		}
		sum := sha256.Sum256(p)
		number(off)
		h.Write(sum[:])
	}
	return prefix + hex.EncodeToString(h.Sum(nil)), nil
}

func zeros(p []byte) bool {
	for len(p) >= 8 {
		if binary.NativeEndian.Uint64(p) != 0 {
			return false
		}
		p = p[8:]
	}
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
