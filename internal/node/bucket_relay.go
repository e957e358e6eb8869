package node

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// bucketRelay connects a burst buffer on this host with the submitting machine, which passes its requests on to the
// bucket. That machine may be away for long, and come back.
type bucketRelay struct {
	mu      sync.Mutex
	peer    *wire.Peer    // the newest controller; nil: none is connected
	changed chan struct{} // closed when there is another one
}

// attach has connections go to a controller, until that is gone or another one has come.
func (b *bucketRelay) attach(ctx context.Context, _ rpc.Caller, _ rpc.None, a rpc.Answer[rpc.None]) error {
	if err := a.Reply(rpc.None{}); err != nil {
		return err
	}
	peer, err := wire.NewBoundedPeer(a, true, "the submitting machine", wire.Tolerant, wire.Bounds{Streams: nodecall.MostRelayed, Window: nodecall.RelayWindow})
	if err != nil {
		return err
	}
	defer peer.Close()
	if before := b.replace(nil, peer); before != nil {
		before.Close() // its controller has been away
	}
	defer b.replace(peer, nil)
	select {
	case <-peer.Done():
	case <-ctx.Done():
	}
	return nil
}

// replace sets the peer where it is of, or of is nil, and returns the one before.
func (b *bucketRelay) replace(of, by *wire.Peer) (before *wire.Peer) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if of != nil && b.peer != of {
		return nil
	}
	before, b.peer = b.peer, by
	if b.changed != nil {
		close(b.changed)
		b.changed = nil
	}
	return before
}

// open connects with the submitting machine, once a controller is there.
func (b *bucketRelay) open(ctx context.Context) (io.ReadWriteCloser, error) {
	for {
		b.mu.Lock()
		peer := b.peer
		if b.changed == nil {
			b.changed = make(chan struct{})
		}
		changed := b.changed
		b.mu.Unlock()
		if peer != nil {
			if s, err := peer.OpenStream(); err == nil {
				return s, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, &core.Error{Kind: core.Transient, Op: "reach", Object: "the submitting machine", Err: errors.New("no controller of the run is connected"), Remedy: core.RemedyShow}
		}
	}
}
