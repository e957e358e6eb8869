package transfer

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"golang.org/x/sys/unix"
)

// TestNoSiteFillsADisk: of the space at home a part is kept.
func TestNoSiteFillsADisk(t *testing.T) {
	for name, c := range map[string]struct {
		before, now free
		scarce      bool
	}{
		"much":               {free{1 << 40, 0, false}, free{2 << 30, 0, false}, false},
		"little of much":     {free{1 << 40, 0, false}, free{1 << 29, 0, false}, true},
		"a small disk":       {free{100 << 20, 0, false}, free{20 << 20, 0, false}, false},
		"a small disk, full": {free{100 << 20, 0, false}, free{9 << 20, 0, false}, true},
		"files":              {free{1 << 40, 1 << 20, true}, free{1 << 39, 9999, true}, true},
		"files, not counted": {free{1 << 40, 0, false}, free{1 << 39, 0, false}, false},
	} {
		if c.before.scarce(c.now) != c.scarce {
			t.Errorf("%s: scarce is %v", name, !c.scarce)
		}
	}
	if os.Geteuid() != 0 {
		return
	}
	dir := t.TempDir()
	if err := unix.Mount("small", dir, "tmpfs", 0, "size=64m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(dir, 0) })
	done := int64(0)
	err := WithinSpace(t.Context(), driver.Transfer{Local: filepath.Join(dir, "x"), Progress: func(n int64) { done = n }}, func(ctx context.Context, tr driver.Transfer) error {
		for n := int64(1); n < 100 && ctx.Err() == nil; n++ {
			if err := os.WriteFile(filepath.Join(dir, strconv.FormatInt(n, 10)), make([]byte, 1<<20), 0o600); err != nil {
				return err
			}
			tr.Progress(n << 20)
		}
		return ctx.Err()
	})
	if !core.IsKind(err, core.Transient) || !errors.Is(err, ErrScarce) || done < 50<<20 {
		t.Errorf("after %d bytes: %v", done, err)
	}
}
