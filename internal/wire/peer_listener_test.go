package wire

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"
)

// callers gives the identities of a listener and of a caller.
func callers(t *testing.T) (listenEnd, caller *Identity) {
	t.Helper()
	a, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]*Identity{}
	for _, name := range []string{ListenerName, "caller"} {
		cert, key, err := a.Issue(name)
		if err == nil {
			ids[name], err = NewIdentity(a.Certificate(), cert, key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return ids[ListenerName], ids["caller"]
}

// listenForPeer gives a listener, and its addresses on this machine alone: the first leads to
// nobody.
func listenForPeer(t *testing.T, id *Identity) (*PeerListener, []string) {
	t.Helper()
	d, err := ListenForPeer(id)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	_, port, err := net.SplitHostPort(d.Addrs()[0])
	if err != nil {
		t.Fatal(err)
	}
	return d, []string{"127.0.0.1:1", "127.0.0.1:" + port, "127.0.0.2:" + port}
}

type admitted struct {
	conn net.Conn
	err  error
}

func admit(ctx context.Context, d *PeerListener) chan admitted {
	in := make(chan admitted, 1)
	go func() {
		c, err := d.Admit(ctx)
		in <- admitted{c, err}
	}()
	return in
}

func TestAListenerAdmitsItsCallerAlone(t *testing.T) {
	own, caller := callers(t)
	_, stranger := callers(t)
	d, addrs := listenForPeer(t, own)
	in := admit(t.Context(), d)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	silent, err := net.Dial("tcp", addrs[1])
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if c, err := Reach(ctx, stranger, addrs); err == nil {
		c.Close()
		t.Error("a stranger takes the door for his own")
	}
	// One who takes any listener for his own is not let in, either.
	for name, id := range map[string]*Identity{"a stranger": stranger, "who shows no certificate": nil} {
		config := &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13}
		if id != nil {
			config = id.Client(ListenerName)
			config.InsecureSkipVerify = true
		}
		if c, err := tls.Dial("tcp", addrs[1], config); err == nil {
			if knock(c) == nil {
				t.Error("let in: " + name)
			}
			c.Close()
		}
	}
	select {
	case a := <-in:
		t.Fatalf("admitted somebody: %v", a.err)
	default:
	}
	c, err := Reach(ctx, caller, addrs)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := <-in
	if a.err != nil {
		t.Fatal(a.err)
	}
	defer a.conn.Close()
	if a.conn.RemoteAddr().String() != c.LocalAddr().String() {
		t.Errorf("the two ends are of two connections: %v and %v", a.conn.RemoteAddr(), c.LocalAddr())
	}
	for _, ends := range [][2]net.Conn{{c, a.conn}, {a.conn, c}} {
		go ends[0].Write([]byte("hello"))
		b := make([]byte, 5)
		if _, err := ends[1].Read(b); err != nil || string(b) != "hello" {
			t.Errorf("%q came, %v", b, err)
		}
	}
	if again, err := net.Dial("tcp", addrs[1]); err == nil {
		again.Close()
		t.Error("the door is still open")
	}
}

func TestAListenerIsNotOpenForLong(t *testing.T) {
	own, caller := callers(t)
	d, addrs := listenForPeer(t, own)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if a := <-admit(ctx, d); a.err == nil {
		t.Error("somebody came")
	}
	if _, err := Reach(t.Context(), caller, addrs); err == nil || !strings.Contains(err.Error(), addrs[1]) {
		t.Errorf("reached: %v", err)
	}
}
