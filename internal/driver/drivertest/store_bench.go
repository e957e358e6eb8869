package drivertest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/driver"
)

// BenchStore measures how long 1 GiB takes into a store and back, and again after 1 %
// of its pages have changed, and how many bytes are sent to it for that.
func BenchStore(b *testing.B, place driver.Store) {
	const size, page = 1 << 30, 4 << 10
	dir := filepath.Join(b.TempDir(), "volume")
	if err := os.Mkdir(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	file := filepath.Join(dir, "state")
	Write(b, file, size, 1)
	store, random := place.Run("u@bench"), rand.New(rand.NewChaCha8([32]byte{5}))
	if err := store.Note(b.Context(), []byte("{}")); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for i, name := range []string{"first", "second"} {
			var moved int64
			begun := time.Now()
			if _, _, err := store.Keep(b.Context(), driver.Generation{Attempt: i + 1}, "here", counted{tree(dir), 1 << 62, false, &moved}); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(time.Since(begun).Seconds(), name+"-s")
			b.ReportMetric(100*float64(moved)/size, name+"-%sent")
			f, err := os.OpenFile(file, os.O_WRONLY, 0)
			if err != nil {
				b.Fatal(err)
			}
			fresh := make([]byte, page)
			for range size / page / 100 {
				for i := range fresh {
					fresh[i] = byte(random.Uint32())
				}
				if _, err := f.WriteAt(fresh, random.Int64N(size/page)*page); err != nil {
					b.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				b.Fatal(err)
			}
		}
		list, err := store.List(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		begun := time.Now()
		if err := store.Restore(b.Context(), list[len(list)-1], tree(filepath.Join(b.TempDir(), "back"))); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(begun).Seconds(), "back-s")
	}
}
