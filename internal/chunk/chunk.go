// Package chunk cuts data into chunks by what it contains, so that an insertion
// or a change moves the cuts near it and no others: FastCDC (W. Xia et al.,
// "FastCDC: a Fast and Efficient Content-Defined Chunking Approach for Data
// Deduplication", USENIX ATC 2016), with its gear hash, its skipped minimum and
// its normalised chunk sizes. It knows nothing of files or of where chunks go.
package chunk

import "math/bits"

// Cutter cuts into chunks of an average size. Both ends of a comparison have to
// use the same.
type Cutter struct {
	least, average, most int
	// Masks for the hash before and after the average size: the first is
	// harder to meet, the second easier, so that sizes gather around it.
	hard, easy uint64
}

// Sizes of chunks: small ones find more that is the same, and cost more to report
// each other about.
const (
	// SmallestBits and LargestBits are the binary logarithms of the least and
	// the largest average that a Cutter can have.
	SmallestBits = 12
	LargestBits  = 20
	// many is about how many chunks data should have at most.
	many = 1 << 20
)

// BitsFor is the binary logarithm of the average chunk size that suits an
// amount of data, in bytes.
func BitsFor(total int64) int {
	return min(max(bits.Len64(uint64(max(total, 0)/many)), SmallestBits), LargestBits)
}

// New makes a Cutter for chunks of 2^n bytes on average, at least a quarter and
// at most eight times that.
func New(n int) Cutter {
	const normal = 2 // bits by which the masks differ from the average's
	return Cutter{least: 1 << (n - 2), average: 1 << n, most: 1 << (n + 3), hard: mask(n + normal), easy: mask(n - normal)}
}

// Most is the length of the largest chunk: Cut wants that much data, where there
// is that much.
func (c Cutter) Most() int { return c.most }

// mask has n bits, the highest of the hash: those depend on the most bytes.
func mask(n int) uint64 { return ^uint64(0) << (64 - n) }

// Cut gives the length of the first chunk of b, all of it where it ends without
// a cut.
func (c Cutter) Cut(b []byte) int {
	n := min(len(b), c.most)
	if n <= c.least {
		return n
	}
	var hash uint64
	i := c.least
	for _, end := range [2]struct {
		at   int
		mask uint64
	}{{min(c.average, n), c.hard}, {n, c.easy}} {
		// Two bytes at a time: the hash of the first waits for nothing.
		for ; i+1 < end.at; i += 2 {
			first, second := gear[b[i]], gear[b[i+1]]
			if (hash<<1+first)&end.mask == 0 {
				return i + 1
			}
			if hash = hash<<2 + (first<<1 + second); hash&end.mask == 0 {
				return i + 2
			}
		}
		for ; i < end.at; i++ {
			if hash = hash<<1 + gear[b[i]]; hash&end.mask == 0 {
				return i + 1
			}
		}
	}
	return n
}

// gear gives each byte a random number: those of splitmix64 (S. Vigna), from 0.
var gear = func() (table [256]uint64) {
	state := uint64(0)
	for i := range table {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		table[i] = z ^ z>>31
	}
	return table
}()
