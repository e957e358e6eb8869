package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/plan"
)

// Retained are the snapshots that a head has made. The last two stay, and those that are
// pinned for a reader, however long that takes.
type Retained struct {
	dir  string // of the host
	mu   sync.Mutex
	pins map[int]int // of each
}

// Retain returns the snapshots in the directory of a host.
func Retain(dir string) *Retained { return &Retained{dir: dir, pins: map[int]int{}} }

// Pin has a snapshot stay until unpin is called.
func (k *Retained) Pin(n int) (unpin func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := os.Lstat(plan.SnapshotDir(k.dir, n)); err != nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "read checkpoint", Object: strconv.Itoa(n), Err: fmt.Errorf("it has made way for later ones: %w", err)}
	}
	k.pins[n]++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.pins[n]--; k.pins[n] == 0 {
			delete(k.pins, n)
		}
	}, nil
}

// Prune removes older ones that are not pinned. They are gone at once for others: while it is
// removed, a snapshot has another name.
func (k *Retained) Prune(newest int) error {
	entries, err := os.ReadDir(filepath.Dir(plan.SnapshotDir(k.dir, newest)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n >= newest-1 {
			continue
		}
		if gone, is := k.retire(n); is {
			fsutil.TryRemoveAll(gone) // the next attempt removes all
		}
	}
	return nil
}

// retire renames a snapshot that is not pinned.
func (k *Retained) retire(n int) (gone string, is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := plan.SnapshotDir(k.dir, n)
	gone = dir + ".gone"
	return gone, k.pins[n] == 0 && os.Rename(dir, gone) == nil
}
