package client

import (
	"context"
	"net"
	"sync"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/nodecall"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/wire"
)

// Relay has serve answer the connections by which a burst buffer on the head's host reaches its bucket through this
// machine, until ctx or the connection ends.
func (c *Client) Relay(ctx context.Context, serve func(context.Context, net.Listener) error) error {
	s, _, err := rpc.Open(ctx, c.peer, nodecall.CallRelay, rpc.None{})
	if err != nil {
		return err
	}
	defer s.Close()
	peer, err := wire.NewBoundedPeer(s, false, "the head", wire.Tolerant, wire.Bounds{Streams: nodecall.MostRelayed, Window: nodecall.RelayWindow})
	if err != nil {
		return err
	}
	defer peer.Close()
	defer context.AfterFunc(ctx, func() { peer.Close() })()
	return lost("pass requests on of", serve(ctx, &streams{peer, make(chan struct{}, nodecall.MostRelayed)}))
}

// UseKeys has a burst buffer on the head's host use other credentials for its bucket from now on.
func (c *Client) UseKeys(ctx context.Context, keys core.BucketKeys) error {
	_, err := rpc.Call(ctx, c.peer, nodecall.CallUseKeys, keys)
	return err
}

// KeysExpire reports whether credentials that were sent for a burst buffer's bucket expire.
func (c *Client) KeysExpire(ctx context.Context) (bool, error) {
	r, err := rpc.Call(ctx, c.peer, nodecall.CallKeysExpire, rpc.None{})
	return r.Expire, err
}

// streams is a listener for the streams of a connection, of which room bounds the number.
type streams struct {
	peer *wire.Peer
	room chan struct{}
}

// Accept implements net.Listener.
func (l *streams) Accept() (net.Conn, error) {
	select {
	case l.room <- struct{}{}:
	case <-l.peer.Done():
		return nil, net.ErrClosed
	}
	s, err := l.peer.AcceptStream()
	if err != nil {
		return nil, net.ErrClosed
	}
	return &stream{Conn: s, leave: sync.OnceFunc(func() { <-l.room })}, nil
}

// stream is one of a listener.
type stream struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (s *stream) Close() error {
	s.leave()
	return s.Conn.Close()
}

// Close implements net.Listener.
func (l *streams) Close() error { return l.peer.Close() }

// Addr implements net.Listener.
func (l *streams) Addr() net.Addr { return &net.UnixAddr{Name: l.peer.Name(), Net: "unix"} }
