package inputs

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bee-hpc/bee/internal/treesync"
)

// Counting gives what is told how much of a file or directory has been copied, and tells
// of how much in all. That of a directory is counted only while it is copied, if that
// takes long: nobody waits for it. end is to be called once nothing is told any more.
func Counting(ctx context.Context, local string, say func(what string, done, total int64)) (told func(done int64), end func()) {
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
	told = func(done int64) {
		if isDir && time.Since(begun) > time.Second {
			count.Do(func() { counter.Go(func() { total.Store(treesync.Size(ctx, local)) }) })
		}
		say("copying "+local, done, total.Load())
	}
	return told, func() { cancel(); counter.Wait() }
}
