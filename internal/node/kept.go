package node

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/client"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// kept are the snapshots that a head has kept. The last two stay, and those that
// somebody reads, however long that takes.
type kept struct {
	dir     string // of the host
	mu      sync.Mutex
	readers map[int]int // of each
}

// read has a snapshot stay until done is called.
func (k *kept) read(n int) (done func(), err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := os.Lstat(protocol.SnapshotDir(k.dir, n)); err != nil {
		return nil, &core.Error{Kind: core.NotFound, Op: "read checkpoint", Object: strconv.Itoa(n), Err: fmt.Errorf("it has made way for later ones: %w", err)}
	}
	if k.readers == nil {
		k.readers = map[int]int{}
	}
	k.readers[n]++
	return func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.readers[n]--; k.readers[n] == 0 {
			delete(k.readers, n)
		}
	}, nil
}

// makeWay has older ones make way for the newest. They are gone at once for who begins to
// read, or has without telling: what is half removed has another name.
func (k *kept) makeWay(newest int) error {
	entries, err := os.ReadDir(filepath.Dir(protocol.SnapshotDir(k.dir, newest)))
	if err != nil {
		return err
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || n >= newest-1 {
			continue
		}
		if gone, is := k.take(n); is {
			fsutil.RemoveAll(gone) //nolint:errcheck // the next attempt removes all
		}
	}
	return nil
}

// take gives a snapshot that nobody reads another name.
func (k *kept) take(n int) (gone string, taken bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := protocol.SnapshotDir(k.dir, n)
	gone = dir + ".gone"
	return gone, k.readers[n] == 0 && os.Rename(dir, gone) == nil
}

// holdSnapshot has a snapshot stay for as long as the caller keeps the stream open.
func (h *head) holdSnapshot(ctx context.Context, _ rpc.Caller, r client.HoldRequest, a rpc.Answer[rpc.None]) error {
	done, err := h.kept.read(r.Snapshot)
	if err != nil {
		return err
	}
	defer done()
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	ctx, cancel := a.Broken(ctx)
	defer cancel()
	<-ctx.Done()
	return nil
}
