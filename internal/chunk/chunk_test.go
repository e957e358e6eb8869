package chunk

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"testing"
)

func random(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b) //nolint:errcheck // it cannot fail
	return b
}

func cut(c Cutter, b []byte) [][]byte {
	var out [][]byte
	for len(b) > 0 {
		n := c.Cut(b)
		out, b = append(out, b[:n]), b[n:]
	}
	return out
}

func TestChunksAreTheDataAndOfTheRightSize(t *testing.T) {
	const n = 14
	for name, data := range map[string][]byte{"nothing": nil, "a byte": {1}, "random": random(8<<20, 1), "zeros": make([]byte, 8<<20)} {
		chunks := cut(New(n), data)
		if !bytes.Equal(bytes.Join(chunks, nil), data) {
			t.Errorf("%s: the chunks are not the data", name)
		}
		for i, c := range chunks {
			if len(c) > New(n).Most() || i < len(chunks)-1 && len(c) < 1<<(n-2) {
				t.Errorf("%s: chunk %d has %d bytes", name, i, len(c))
			}
		}
		if average := len(data) / max(len(chunks), 1); name == "random" && (average < 1<<(n-1) || average > 1<<(n+1)) {
			t.Errorf("%d bytes on average", average)
		}
	}
}

// What is inserted, taken out or changed touches few chunks.
func TestChangesAreLocal(t *testing.T) {
	data := random(8<<20, 2)
	have := map[[32]byte]bool{}
	for _, c := range cut(New(SmallestBits), data) {
		have[sha256.Sum256(c)] = true
	}
	for name, changed := range map[string][]byte{
		"inserted": append(append(append([]byte{}, data[:1234567]...), "something"...), data[1234567:]...),
		"removed":  append(append([]byte{}, data[:3333333]...), data[3333400:]...),
		"in front": append([]byte("x"), data...),
	} {
		fresh := 0
		for _, c := range cut(New(SmallestBits), changed) {
			if !have[sha256.Sum256(c)] {
				fresh += len(c)
			}
		}
		if fresh == 0 || fresh > 8*New(SmallestBits).Most() {
			t.Errorf("%s: %d bytes are new", name, fresh)
		}
	}
}

// Where the cuts are must not change: what is kept already is cut there.
func TestCutsStayWhereTheyAre(t *testing.T) {
	ends := sha256.New()
	for i, c := range cut(New(SmallestBits), random(8<<20, 4)) {
		fmt.Fprintln(ends, i, len(c))
	}
	if got := fmt.Sprintf("%x", ends.Sum(nil)[:8]); got != "b7f4ab9fc5731e16" {
		t.Errorf("the cuts are others: %s", got)
	}
}

func TestSizesSuitTheAmount(t *testing.T) {
	for total, want := range map[int64]int{-1: SmallestBits, 0: SmallestBits, 1 << 30: SmallestBits, 1 << 36: 17, 1 << 60: LargestBits} {
		if got := BitsFor(total); got != want {
			t.Errorf("%d bytes: 2^%d, want 2^%d", total, got, want)
		}
	}
}

func BenchmarkCut(b *testing.B) {
	data := random(16<<20, 3)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		cut(New(SmallestBits), data)
	}
}
