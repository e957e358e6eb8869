package unpack

import (
	"os"
	"testing"

	"github.com/bee-hpc/bee/internal/fsutil"
)

// BenchmarkBlob unpacks the layer that BEE_BENCH_LAYER names.
func BenchmarkBlob(b *testing.B) {
	file := os.Getenv("BEE_BENCH_LAYER")
	if file == "" {
		b.Skip("BEE_BENCH_LAYER names no layer")
	}
	for b.Loop() {
		root := b.TempDir()
		f, err := os.Open(file)
		if err != nil {
			b.Fatal(err)
		}
		u, err := New(root, DefaultLimits())
		if err != nil {
			b.Fatal(err)
		}
		if _, err := u.Blob(b.Context(), f); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(u.Bytes())
		u.Close()
		b.StopTimer()
		fsutil.RemoveAll(root)
		b.StartTimer()
	}
}
