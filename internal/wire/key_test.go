package wire

import (
	"context"
	"io"
	"net"
	"testing"
	"time"
)

// joined are the two ends of a connection, each of which the given function makes secure.
func joined(t *testing.T, client, server func(context.Context, net.Conn) (io.ReadWriteCloser, error)) (c, s io.ReadWriteCloser, cerr, serr error) {
	t.Helper()
	l := listenTCP(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		raw, err := l.(*net.TCPListener).AcceptTCP()
		if err != nil {
			serr = err
			return
		}
		s, serr = server(t.Context(), raw)
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	c, cerr = client(t.Context(), raw)
	if cerr != nil {
		raw.Close()
	}
	<-done
	return c, s, cerr, serr
}

func TestKeyProvesBothEnds(t *testing.T) {
	k, other := NewKey(), NewKey()
	by := func(k Key, own, peer string) [2]func(context.Context, net.Conn) (io.ReadWriteCloser, error) {
		return [2]func(context.Context, net.Conn) (io.ReadWriteCloser, error){
			func(ctx context.Context, c net.Conn) (io.ReadWriteCloser, error) { return k.Client(ctx, c, own, peer) },
			func(ctx context.Context, c net.Conn) (io.ReadWriteCloser, error) { return k.Server(ctx, c, own, peer) },
		}
	}
	c, s, cerr, serr := joined(t, by(k, "controller", "node-0")[0], by(k, "node-0", "controller")[1])
	if cerr != nil || serr != nil {
		t.Fatal(cerr, serr)
	}
	go s.Write([]byte("x"))
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Error(err)
	}
	for name, ends := range map[string][2]func(context.Context, net.Conn) (io.ReadWriteCloser, error){
		"another key":              {by(k, "controller", "node-0")[0], by(other, "node-0", "controller")[1]},
		"another node":             {by(k, "controller", "node-0")[0], by(k, "node-1", "controller")[1]},
		"a node as the controller": {by(k, "node-1", "node-0")[0], by(k, "node-0", "controller")[1]},
		"a peer without TLS": {by(k, "controller", "node-0")[0], func(_ context.Context, c net.Conn) (io.ReadWriteCloser, error) {
			_, err := c.Write([]byte("\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
			return c, err
		}},
	} {
		if _, _, cerr, _ := joined(t, ends[0], ends[1]); !NotProven(cerr) {
			t.Errorf("%s: %v", name, cerr)
		}
	}
	if _, err := Key(nil).Client(t.Context(), closedConn(t), "a", "b"); err == nil {
		t.Error("no key is taken for one")
	}
}

func closedConn(t *testing.T) net.Conn {
	t.Helper()
	a, b := net.Pipe()
	b.Close()
	t.Cleanup(func() { a.Close() })
	return a
}

// TestKeyWaitsNotForever: an end that says nothing is given up with its context.
func TestKeyWaitsNotForever(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	a, b := net.Pipe()
	defer b.Close()
	if _, err := NewKey().Client(ctx, a, "controller", "node-0"); err == nil || NotProven(err) {
		t.Error(err)
	}
}
