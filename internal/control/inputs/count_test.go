package inputs

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestALargeInputIsCountedWhileItIsCopied, and a small one not at all.
func TestALargeInputIsCountedWhileItIsCopied(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a": "123", "b": "4567"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		var totals []int64
		report, end := counting(t.Context(), dir, func(_ string, _, total int64) { totals = append(totals, total) })
		for i := range int64(4) {
			report(i)
			synctest.Wait()
			time.Sleep(600 * time.Millisecond) // in virtual time
		}
		end()
		if want := []int64{0, 0, 0, 7}; !slices.Equal(totals, want) {
			t.Errorf("totals were reported as %d, want %d", totals, want)
		}
		report, end = counting(t.Context(), filepath.Join(dir, "b"), func(_ string, _, total int64) {
			if total != 4 {
				t.Errorf("of a file %d is reported, want its size", total)
			}
		})
		report(1)
		end()
	})
}
