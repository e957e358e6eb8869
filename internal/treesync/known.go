package treesync

import (
	"encoding/binary"
	"io"
	"path/filepath"
	"slices"

	"github.com/bee-hpc/bee/internal/chunk"
)

// Known are the chunks that a receiver has already: a sender names them instead
// of sending them.
type Known struct {
	chunks chunker
	sums   map[sum]struct{}
	// agreed are files that are the same at both ends, indexed whether an index of
	// the tree is to be kept.
	agreed  *agreed
	indexed bool
	// total means that the receiver knows nothing, and wants to know first how
	// much there is.
	total bool
}

// maxKnown bounds what a sender takes: no more than a Basis has.
const maxKnown = 1 << 23

// ReadKnown reads what a Basis reports, and no byte more; nil where nothing is known.
func ReadKnown(receiver io.ReadWriter) (*Known, error) {
	k, err := readKnown(receiver, "")
	if err != nil || !k.total && len(k.sums) == 0 {
		return nil, err
	}
	return k, nil
}

// Agree is ReadKnown for who is to send the tree at path, which is in a directory of
// ours: an index is kept beside it, and what has not changed since need not travel.
func Agree(receiver io.ReadWriter, path string) (*Known, error) {
	return readKnown(receiver, filepath.Clean(path))
}

func readKnown(receiver io.ReadWriter, path string) (*Known, error) {
	k := &Known{}
	bits, n, err := readHead(receiver)
	if err == nil && bits == offerMark {
		if k.agreed, err = accept(receiver, n, path); err == nil {
			bits, n, err = readHead(receiver)
		}
	}
	if err != nil {
		return nil, err
	}
	k.indexed = path != "" && bits&wantsIndex != 0
	isKeyed := bits&keyed != 0
	if bits &^= wantsIndex | keyed; bits == 0 && n == 0 {
		k.total = true
		return k, nil
	}
	if bits < chunk.SmallestBits || bits > chunk.LargestBits || n > maxKnown {
		return nil, errDamaged
	}
	k.chunks.Cutter = chunk.New(bits)
	if isKeyed {
		var key nameKey
		if _, err := io.ReadFull(receiver, key[:]); err != nil {
			return nil, cut(err)
		}
		k.chunks = key.chunker(bits)
	}
	k.sums = make(map[sum]struct{}, min(n, 1<<16))
	names := make([]byte, min(n, 1<<12)*len(sum{}))
	for left := n * len(sum{}); left > 0; left -= len(names) {
		names = names[:min(left, len(names))]
		if _, err := io.ReadFull(receiver, names); err != nil {
			return nil, cut(err)
		}
		for s := range slices.Chunk(names, len(sum{})) {
			k.sums[sum(s)] = struct{}{}
		}
	}
	return k, nil
}

func readHead(r io.Reader) (bits, n int, err error) {
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, 0, cut(err)
	}
	return int(binary.LittleEndian.Uint32(head[:])), int(binary.LittleEndian.Uint32(head[4:])), nil
}
