package treesync

import (
	"context"
	"errors"
	"io"
	"net"

	"github.com/bee-hpc/bee/internal/core"
)

// Sending begins to send path, in a directory of ours on this host, to who reports a
// Basis over the connection and reads the stream from it.
func Sending(ctx context.Context, path string, progress func(done int64)) io.ReadWriteCloser {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		if known, err := Agree(far, path); err == nil {
			core.BestEffort(SendOver(ctx, far, path, known, progress)) // the stream itself reports it
		}
	}()
	return near
}

// Incoming is the end of a connection into which a stream is written.
type Incoming struct {
	net.Conn
	done chan error
}

// Receiving begins to receive path, on this host, from who reads what is known
// here (ReadKnown) from the connection and writes the stream to it.
func Receiving(ctx context.Context, path string) *Incoming {
	near, far := net.Pipe()
	in := &Incoming{near, make(chan error, 1)}
	stop := context.AfterFunc(ctx, func() { far.Close() })
	go func() {
		defer stop()
		defer far.Close()
		in.done <- func() error {
			basis, err := NewBasis(ctx, path)
			if err != nil {
				basis = nil // then all of it travels
			}
			if err := basis.SendKnown(ctx, far); err != nil {
				return err
			}
			return ReceiveOver(ctx, far, path, basis)
		}()
	}()
	return in
}

// Outcome reports, once all is written, whether it has arrived.
func (in *Incoming) Outcome() error { return <-in.done }

// Close ends the connection. Without the whole stream nothing is changed.
func (in *Incoming) Close() error {
	err := in.Conn.Close()
	if errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}
