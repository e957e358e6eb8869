package treesync

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"

	"github.com/bee-hpc/bee/internal/chunk"
)

// sum names a chunk: by the first half of its SHA-256, or under a key.
type sum [16]byte

func sumOf(b []byte) sum {
	whole := sha256.Sum256(b)
	return sum(whole[:16])
}

// chunker cuts data into chunks and names them.
type chunker struct {
	chunk.Cutter
	key cipher.AEAD // nil: by SHA-256
}

// nameKey is the key of one transfer, under which the name of a chunk is its GMAC (NIST
// SP 800-38D). The key is drawn at random when the data are there, so two chunks get
// the same name with a chance of one in 2^117 at most, whatever is in them. It takes a
// quarter of the time of SHA-256, and less where processors do not help with that.
type nameKey [16]byte

func newNameKey() (k nameKey) {
	rand.Read(k[:])
	return k
}

func (k nameKey) chunker(bits int) chunker {
	block, err := aes.NewCipher(k[:])
	if err == nil {
		var key cipher.AEAD
		if key, err = cipher.NewGCM(block); err == nil {
			return chunker{chunk.New(bits), key}
		}
	}
	panic(err) // the lengths are constants
}

func (c chunker) name(to *sum, b []byte) {
	if c.key == nil {
		*to = sumOf(b)
		return
	}
	var always [12]byte // it is no secret what has which name
	c.key.Seal(to[:0], always[:], nil, b)
}
