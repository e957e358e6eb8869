package inputs

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/treesync"
)

// counting returns progress, which is called with how much of a file or directory has been
// copied, and passes that and the total size to say. A directory is counted only while it
// is copied, if that takes long: nothing waits for the count. end is to be called after the
// last call of progress.
func counting(ctx context.Context, local string, say func(what string, done, total int64)) (progress func(done int64), end func()) {
	ctx, cancel := context.WithCancel(ctx)
	var total atomic.Int64
	var count sync.Once
	var counter sync.WaitGroup
	info, err := os.Stat(local)
	isDir := err != nil || info.IsDir()
	if !isDir {
		total.Store(info.Size())
	}
	begun := time.Now()
	progress = func(done int64) {
		if isDir && time.Since(begun) > time.Second {
			count.Do(func() { counter.Go(func() { total.Store(treesync.Size(ctx, local)) }) })
		}
		say("copying "+local, done, total.Load())
	}
	return progress, func() { cancel(); counter.Wait() }
}
