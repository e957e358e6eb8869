package control

import (
	"context"
	"net"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/wire"
)

// SecureByKey is Controller.Secure for nodes: both ends prove that they have the
// attempt's key. A connection that fails is closed.
func SecureByKey(ctx context.Context, conn net.Conn, key []byte, rank int) (net.Conn, error) {
	secure, err := wire.Key(key).Client(ctx, conn, protocol.ControllerName, protocol.NodeName(rank))
	switch {
	case wire.NotProven(err):
		return nil, &core.Error{
			Kind: core.Lost, Op: "reach node", Object: protocol.NodeName(rank), Err: err,
			Remedy: "Somebody else answers in its place: nothing of what is said there is believed. Look at the processes on that host.",
		}
	case err != nil:
		return nil, err
	}
	return secure, nil
}

// connecting connects with a head that has an attempt's key.
func connecting(secure func(context.Context, net.Conn, []byte, int) (net.Conn, error), connect func(net.Conn) (Head, error), key []byte) func(context.Context, net.Conn) (Head, error) {
	return func(ctx context.Context, conn net.Conn) (Head, error) {
		conn, err := secure(ctx, conn, key, 0)
		if err != nil {
			return nil, err
		}
		return connect(conn)
	}
}
