package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// echo proves itself by a first byte, and answers it.
func echo(c net.Conn, known func() bool) {
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil || !known() {
		return
	}
	defer c.Close()
	c.Write(b)
	io.Copy(io.Discard, c)
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// call is a client that proves itself, and is answered in time.
func call(addr net.Addr, from string) error {
	d := net.Dialer{Timeout: time.Minute}
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	c, err := d.Dial(addr.Network(), addr.String())
	if err != nil {
		return err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := c.Write([]byte{7}); err != nil {
		return err
	}
	_, err = io.ReadFull(c, make([]byte, 1))
	return err
}

// failing is a listener whose first calls fail.
type failing struct {
	net.Listener
	left atomic.Int32
	err  error
}

func (f *failing) Accept() (net.Conn, error) {
	if f.left.Add(-1) >= 0 {
		return nil, f.err
	}
	return f.Listener.Accept()
}

func TestGateOutlivesErrors(t *testing.T) {
	for _, err := range []error{unix.EMFILE, unix.ENFILE, unix.ECONNABORTED, unix.ENOBUFS, unix.ENOMEM, unix.EPERM, errors.New("odd")} {
		f := &failing{Listener: listenTCP(t), err: &net.OpError{Op: "accept", Err: err}}
		f.left.Store(4)
		var g Gate
		ended := make(chan struct{})
		go func() { g.Serve(f, echo); close(ended) }()
		if cerr := call(f.Addr(), ""); cerr != nil {
			t.Errorf("after %v: %v", err, cerr)
		}
		f.Close()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("after %v it does not end with its listener", err)
		}
	}
}

// TestGateWithoutDescriptors takes the process's descriptors away, in a process of its
// own, by connections that say nothing.
func TestGateWithoutDescriptors(t *testing.T) {
	var was syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &was); err != nil {
		t.Fatal(err)
	}
	l := listenTCP(t)
	failed := make(chan error, 1)
	g := Gate{Strangers: 1 << 20, Timeout: time.Hour, Failed: func(err error) {
		select {
		case failed <- err:
		default:
		}
	}}
	go g.Serve(l, echo)
	few := was
	few.Cur = 100
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	var silent []net.Conn
	for len(silent) < 200 {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			break
		}
		silent = append(silent, c)
	}
	select {
	case err := <-failed:
		if !errors.Is(err, unix.EMFILE) {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("descriptors did not run out")
	}
	silent[0].Close() // for the call's own
	err := call(l.Addr(), "")
	if serr := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was); serr != nil {
		t.Fatal(serr)
	}
	if err != nil {
		t.Error(err)
	}
	for _, c := range silent {
		c.Close()
	}
}

// TestGateInAFlood: one address floods the listener with connections that say nothing,
// and another is served all the time; and so is one of the very same address.
func TestGateInAFlood(t *testing.T) {
	l := listenTCP(t)
	g := Gate{Strangers: 16, Timeout: time.Hour}
	go g.Serve(l, echo)
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			var held []net.Conn
			defer func() {
				for _, c := range held {
					c.Close()
				}
			}()
			for ctx.Err() == nil {
				if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
					held = append(held, c)
				}
				if len(held) > 100 {
					held[0].Close()
					held = held[1:]
				}
			}
		})
	}
	for range 20 {
		if err := call(l.Addr(), "127.0.0.2"); err != nil {
			t.Error(err)
		}
	}
	stop()
	all.Wait()
	if err := call(l.Addr(), ""); err != nil {
		t.Error("from the flood's own address:", err)
	}
}

func TestGateGivesSilentOnesUp(t *testing.T) {
	l := listenTCP(t)
	g := Gate{Timeout: 20 * time.Millisecond}
	go g.Serve(l, echo)
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
		t.Errorf("a silent connection: %v", err)
	}
}

// TestGateKeepsKnownOnes: they outlive the time limit, and further ones wait for their end.
func TestGateKeepsKnownOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sock")
	l, err := ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := Gate{Timeout: time.Second, Most: 1} // longer than a busy machine takes to hear the first one
	go g.Serve(l, echo)
	c, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	c.Write([]byte{1})
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	second, err := DialUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	second.Write([]byte{2})
	second.SetReadDeadline(time.Now().Add(1200 * time.Millisecond))
	if _, err := second.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one more than there may be was served: %v", err)
	}
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the known one: %v", err)
	}
	c.Close()
	second.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := second.Read(make([]byte, 1)); err != nil {
		t.Errorf("the one that waited: %v", err)
	}
}
