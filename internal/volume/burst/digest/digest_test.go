package digest

import (
	"bytes"
	"testing"
)

// TestDigest compares digests of contents that differ in one byte, in their size, or in where
// their bytes are. Holes have the digest of zeros.
func TestDigest(t *testing.T) {
	of := func(data []byte, anything func(off, end int64) bool) string {
		t.Helper()
		sum, err := Of(t.Context(), int64(len(data)), anything, func(p []byte, off int64) error {
			copy(p, data[off:])
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	plain := make([]byte, 2*chunk+100)
	plain[chunk+5] = 1
	hole := func(off, _ int64) bool { return off == chunk }
	if of(plain, nil) != of(plain, hole) {
		t.Error("a hole has another digest than its zeros")
	}
	seen := map[string]string{of(plain, nil): "plain"}
	end, moved, first := bytes.Clone(plain), bytes.Clone(plain), bytes.Clone(plain)
	end[len(end)-1] = 1
	moved[chunk+5], moved[5] = 0, 1
	first[0] = 1
	for name, data := range map[string][]byte{
		"last byte": end, "moved": moved, "first byte": first, "shorter": plain[:len(plain)-1], "empty": {}, "zeros": make([]byte, 10), "more zeros": make([]byte, 11),
	} {
		sum := of(data, nil)
		if other, is := seen[sum]; is {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[sum] = name
	}
}
