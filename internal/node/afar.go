package node

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/rpc"
)

// BurstClient is a burst buffer that is mounted on this host, and whose I/O process is on the head's.
type BurstClient interface {
	// Dir is where it is mounted.
	Dir() string
	// Abort has everything on it fail, so that no program waits for it any more.
	Abort()
	// End unmounts it.
	End(ctx context.Context) error
}

// afar is the run's burst buffer on a node that is not the head.
type afar struct {
	mu     sync.Mutex
	client BurstClient // nil: it is not mounted
}

// unmountTime bounds the end of a mount of which programs make use.
const unmountTime = 15 * time.Second

// mountAfar mounts the run's burst buffer, which the container has as its volume from then on.
func (n *node) mountAfar(ctx context.Context, id string) error {
	job := n.known.job()
	if n.BurstAfar == nil || job.Burst == nil {
		return &core.Error{Kind: core.Unsupported, Op: "mount the volume of", Object: n.config.Owner.Run, Err: errors.New("this host has no burst buffers"), Remedy: core.RemedyVersions}
	}
	n.afar.mu.Lock()
	defer n.afar.mu.Unlock()
	if n.afar.client != nil {
		return nil
	}
	dial := func(context.Context) (io.ReadWriteCloser, error) { // a connection outlives the call
		head, err := n.pool.Peer(n.life, 0)
		if err != nil {
			return nil, err
		}
		s, _, err := rpc.Open(n.life, head, peercall.CallVolume, rpc.None{})
		return s, err
	}
	c, err := n.BurstAfar(ctx, withRecords(n.config, *job.Burst), n.config.Owner, n.config.Rank, id, dial)
	if err != nil {
		return err
	}
	n.afar.client, n.mounted = c, c.Dir()
	n.hang.guard(c.Abort)
	return nil
}

// unmountAfar unmounts it, once the container has ended.
func (n *node) unmountAfar() {
	n.afar.mu.Lock()
	defer n.afar.mu.Unlock()
	if n.afar.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), unmountTime)
	defer cancel()
	if err := n.afar.client.End(ctx); err != nil {
		n.Log.Warn("unmount the volume", "err", err)
		return
	}
	n.afar.client = nil
}
