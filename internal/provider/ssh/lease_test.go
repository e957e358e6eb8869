package ssh

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/testkit/sshfarm"
)

// TestABrokenFetchGoesOn where the line broke, into a directory that is not ours.
func TestABrokenFetchGoesOn(t *testing.T) {
	const size = 128 << 20 // far more than is on the way at a time
	s := newFar(t, sshfarm.Start(t, 2), size)
	results := t.TempDir()
	fetch := driver.Transfer{Remote: filepath.Join(s.tree.path, "state"), Local: filepath.Join(results, "state")}
	fetch.Progress = func(done int64) {
		if done > size*5/8 {
			kill(t, clients(t, "h0")...)
		}
	}
	if err := s.lease.Fetch(t.Context(), fetch); !core.IsKind(err, core.Lost) {
		t.Fatalf("the line broke, and the fetch says %v", err)
	}
	if _, err := os.Lstat(fetch.Local); err == nil {
		t.Error("half of it is there")
	}
	before := s.Carried(t)
	fetch.Progress = nil
	must(t, s.lease.Fetch(t.Context(), fetch))
	s.same(t, results)
	if n := s.Carried(t) - before; n > size/2 {
		t.Errorf("%d bytes of %d travelled again", n, size)
	}
	if left, _ := os.ReadDir(results); len(left) != 1 {
		t.Errorf("left beside it: %v", left)
	}
}
