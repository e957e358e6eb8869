package burst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

const (
	// relayTime bounds the wait for the submitting machine, which may connect just then.
	relayTime = 15 * time.Second
	// mostRelayed is how many connections to the submitting machine there are at a time.
	mostRelayed = 32
	// relayReady is the byte that comes first, once there is a way to the submitting machine.
	relayReady = '+'
)

// ServeRelay has the I/O process of a volume reach the submitting machine through this one, as long as this one lives.
// open connects with that machine.
func (c Config) ServeRelay(open func(ctx context.Context) (io.ReadWriteCloser, error)) error {
	socket, err := c.inside(relayName)
	if err != nil {
		return err
	}
	l, err := wire.ListenUnix(socket)
	if err != nil {
		return err
	}
	gate := wire.Gate{Most: mostRelayed}
	go gate.Serve(l, func(conn net.Conn, known func() bool) {
		if !known() { // the socket is in a directory of its user's own
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), relayTime)
		far, err := open(ctx)
		cancel()
		if err != nil {
			conn.Close()
			return
		}
		if _, err := conn.Write([]byte{relayReady}); err != nil {
			core.BestEffort(errors.Join(conn.Close(), far.Close()))
			return
		}
		core.BestEffort(wire.Splice(conn, far)) // both ends notice its end
	})
	return nil
}

// relay connects with the submitting machine through the node; nil: requests for the bucket do not pass that.
func (c Config) relay() remote.Dial {
	if !c.Relay {
		return nil
	}
	return func(ctx context.Context) (net.Conn, error) {
		conn, err := c.dialRelay(ctx)
		if err != nil {
			err = &core.Error{
				Kind: core.Transient, Op: "reach the bucket through", Object: "the submitting machine", Err: err,
				Remedy: "Nothing is lost. Draining continues once that machine is back: `bee supervise` there continues the run.",
			}
		}
		return conn, err
	}
}

func (c Config) dialRelay(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*relayTime)
	defer cancel()
	socket, err := c.inside(relayName)
	if err != nil {
		return nil, err
	}
	conn, err := wire.DialUnix(ctx, socket)
	if err != nil {
		return nil, fmt.Errorf("no node of the run is on this host: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	var first [1]byte
	_, err = io.ReadFull(conn, first[:])
	if !stop() || err != nil || first[0] != relayReady {
		conn.Close()
		return nil, errors.New("it is not connected with the run's node")
	}
	return conn, nil
}

// access is by what a volume reaches its bucket.
type access struct {
	mu      sync.Mutex
	relayed bool // through the submitting machine
	sent    bool // by credentials that were sent
}

// useRelay has the remote of a volume, which is a bucket, be reached by a relay; nil: by what is found on this host. A
// drain that waits tries again at once.
func useRelay(v *Volume, dial remote.Dial) error {
	bucket, is := v.tree.(*remote.S3)
	if !is {
		return &core.Error{Kind: core.Invalid, Op: "relay requests for", Object: v.o.Remote, Err: errors.New("it is no bucket"), Remedy: core.RemedyFault}
	}
	v.access.mu.Lock()
	defer v.access.mu.Unlock()
	if v.access.relayed == (dial != nil) && !v.access.sent {
		return nil
	}
	bucket.UseRelay(dial)
	v.access.relayed, v.access.sent = dial != nil, false
	v.drainer.again()
	return nil
}

// passRelay has the I/O process reach the bucket as the record has it: an attempt before may have had another way. Sent
// keys are known to the node alone.
func (c Config) passRelay(ctx context.Context, peer *rpc.Peer) error {
	if c.At.Bucket == "" || c.Keys != nil || c.Sent {
		return nil
	}
	_, err := rpc.Call(ctx, peer, calls.UseRelay, calls.RelayRequest{Use: c.Relay})
	if !c.Relay && core.IsKind(err, core.Unsupported) { // an earlier version, which knows no relay
		return nil
	}
	return err
}
