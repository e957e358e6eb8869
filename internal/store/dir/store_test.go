package dir_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/driver/drivertest"
	"github.com/bee-hpc/bee/internal/store"
	dirstore "github.com/bee-hpc/bee/internal/store/dir"
)

func TestADirectory(t *testing.T) {
	drivertest.StoreSuite{New: func(t testing.TB) (driver.Store, string) {
		dir := t.TempDir()
		return dirstore.Store(dir), dir
	}}.Run(t)
}

// TestADirectoryThatIsNotThere: it may be on a file system that is not mounted,
// and must neither be made nor look empty.
func TestADirectoryThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "not", "mounted")
	r := dirstore.Store(dir)
	_, err1 := r.Runs(t.Context())
	_, err2 := r.Run("u@one").Noted(t.Context())
	err3 := r.Mark(t.Context(), driver.MarkPrefix+"0")
	for _, err := range []error{err1, err2, err3, r.Run("u@one").Remove(t.Context()), store.Explain(dir, r.Run("u@one").Note(t.Context(), nil))} {
		if !core.IsKind(err, core.Transient) || core.Remedy(err) == "" {
			t.Errorf("got %v", err)
		}
	}
	if _, err := os.Stat(filepath.Dir(dir)); err == nil {
		t.Error("it was made")
	}
}

func BenchmarkADirectory(b *testing.B) { drivertest.BenchStore(b, dirstore.Store(b.TempDir())) }
