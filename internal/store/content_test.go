package store

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// sparse makes a file that takes no space.
func sparse(t *testing.T, name string, size int64) {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Truncate(size); err != nil {
		t.Skip("no file system here has such files: ", err)
	}
}

// TestHolesOfATree: they are read as data are, so a file larger than any disk would keep
// its reader busy for years.
func TestHolesOfATree(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	file := filepath.Join(dir, "state")
	if err := os.WriteFile(file, []byte("state"), 0o600); err != nil {
		t.Fatal(err)
	}
	is, err := Read(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	m := driver.Manifest{Files: is.Files, Bytes: is.Bytes, Shape: is.Shape}
	if same, err := Matches(ctx, dir, m); !same || err != nil {
		t.Fatal(same, err)
	}
	const most = 15 << 40 // of one file of ext4
	sparse(t, file, most)
	if same, err := Matches(ctx, dir, m); same || err != nil {
		t.Errorf("a file that has grown: %v, %v", same, err)
	}
	sparse(t, filepath.Join(dir, "another"), most)
	m.Bytes = 2 * most // the owner of the store wrote that, too
	var large extent
	for _, name := range []string{"another", "state"} {
		info, serr := os.Lstat(filepath.Join(dir, name))
		if serr != nil {
			t.Fatal(serr)
		}
		err = large.add(name, info)
	}
	if !core.IsKind(err, core.Permanent) || !strings.Contains(err.Error(), "holes") {
		t.Errorf("holes of 30 TiB: %v", err)
	}
	stopped, stop := context.WithTimeout(ctx, 50*time.Millisecond)
	defer stop()
	if _, err := Matches(stopped, dir, m); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reader that was stopped: %v", err)
	}
}
