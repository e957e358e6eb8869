package mount

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/wire"
)

// TestCancelsAreSentAgain: a wait for a lock that was cancelled while the connection was lost ends in the next
// session.
func TestCancelsAreSentAgain(t *testing.T) {
	c := burst.Config{ID: "1a2b3c4d", Dir: t.TempDir(), Afar: true, Shared: true}
	if err := fsutil.OwnDir(c.Dir); err != nil {
		t.Fatal(err)
	}
	listener, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	requests := make(chan *calls.Request, 10)
	table := rpc.NewServer(slog.New(slog.DiscardHandler))
	rpc.HandleStream(table, calls.Files, func(_ context.Context, _ rpc.Caller, _ calls.Hello, a rpc.Answer[calls.Welcome]) error {
		if err := a.Reply(calls.Welcome{}); err != nil {
			return err
		}
		for r := bufio.NewReader(a); ; {
			q, err := calls.ReadRequest(r)
			if err != nil {
				return nil
			}
			if requests <- q; q.Op == calls.Cancel {
				if _, err := a.Write((&calls.Reply{ID: q.ID, Errno: uint32(syscall.EINTR)}).Encode()); err != nil {
					return err
				}
			}
		}
	})
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serveCalls(t, conn, table)
		}
	}()
	next := func(op calls.Op) *calls.Request {
		t.Helper()
		select {
		case q := <-requests:
			if q.Op != op {
				t.Fatalf("the I/O process gets %+v", q)
			}
			return q
		case <-time.After(time.Minute):
			t.Fatal("the I/O process gets no request")
			return nil
		}
	}

	l := newLink(c, "", slog.New(slog.DiscardHandler))
	peer, err := l.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cancel, ended := make(chan struct{}), make(chan syscall.Errno, 1)
	go func() {
		_, errno := l.call(cancel, 0, &calls.Request{Op: calls.Lock, Ino: 5, Mode: calls.LockWrite, Flags: calls.Wait, Size: 99})
		ended <- errno
	}()
	lock := next(calls.Lock)
	l.mu.Lock()
	lost := l.stream
	l.stream = nil // as keep does where the connection is lost
	l.mu.Unlock()
	lost.Close()
	peer.Close()
	close(cancel)
	if errno := <-ended; errno != syscall.EINTR {
		t.Errorf("the program gets %v", errno)
	}
	if peer, err = l.connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	if q := next(calls.Lock); q.ID != lock.ID {
		t.Errorf("request %d is sent again as %d", lock.ID, q.ID)
	}
	if q := next(calls.Cancel); q.ID != lock.ID {
		t.Errorf("request %d is cancelled, and not %d", q.ID, lock.ID)
	}
}

// serveCalls answers the calls of a connection until that ends.
func serveCalls(t *testing.T, conn net.Conn, table *rpc.Server) {
	peer, err := rpc.NewPeer(conn, false, "a client", wire.Local, calls.Protocol)
	if err != nil {
		conn.Close()
		return
	}
	defer peer.Close()
	peer.Serve(t.Context(), table, rpc.Caller{Role: rpc.Controller, Rank: -1})
}
