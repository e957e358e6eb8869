package loop

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"github.com/bee-hpc/bee/internal/wire"
	"golang.org/x/sys/unix"
)

// started gives a loop, and an event of it that is not heard yet.
func started(t *testing.T) (*Loop, *Event) {
	t.Helper()
	l := &Loop{}
	t.Cleanup(l.Close)
	e, err := NewEvent()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return l, e
}

func TestASourceIsLookedAtWhenItIsHeard(t *testing.T) {
	l, e := started(t)
	looks := make(chan Turn, 100)
	s := l.Add(func(turn Turn) bool {
		if turn == Heard {
			e.Clear()
		}
		looks <- turn
		return true
	})
	next := func(want Turn) {
		t.Helper()
		select {
		case turn := <-looks:
			if turn != want {
				t.Errorf("turn %d, want %d", turn, want)
			}
		case <-time.After(time.Minute):
			t.Fatal("nobody looks")
		}
	}
	none := func() {
		t.Helper()
		select {
		case <-looks:
			t.Error("somebody looks though nothing was heard")
		case <-time.After(50 * time.Millisecond):
		}
	}
	if err := e.Of(s); err != nil {
		t.Fatal(err)
	}
	none()
	for range 3 {
		e.Set()
		next(Heard)
	}
	s.Call()
	next(Own)
	none()
	s.Unwatch()
	e.Set()
	none()
	if err := e.Of(s); err != nil { // it was set before
		t.Fatal(err)
	}
	next(Heard)
	s.Close()
	e.Set()
	s.Call()
	none()
	if err := e.Of(s); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a closed source: %v", err)
	}
}

// TestWhatStaysBusyIsInNobodysWay: one that is never dry has a goroutine of its own, and
// nobody else looks at the same time.
func TestWhatStaysBusyIsInNobodysWay(t *testing.T) {
	l, busy := started(t)
	_, other := started(t)
	var inside, looks atomic.Int32
	var rest atomic.Bool
	s := l.Add(func(Turn) bool {
		if inside.Add(1) > 1 {
			t.Error("two look at once")
		}
		defer inside.Add(-1)
		looks.Add(1)
		busy.Clear()
		time.Sleep(time.Millisecond)
		return rest.Load()
	})
	heard := make(chan struct{}, 1)
	o := l.Add(func(Turn) bool { other.Clear(); heard <- struct{}{}; return true })
	for _, err := range []error{busy.Of(s), other.Of(o)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for range 20 {
		busy.Set()
		s.Call()
		other.Set()
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatal("another has to wait")
		}
	}
	rest.Store(true)
	testkit.Eventually(t, 20*time.Second, func() error {
		before := looks.Load()
		if time.Sleep(20 * time.Millisecond); looks.Load() != before || inside.Load() != 0 {
			return errors.New("it does not rest")
		}
		return nil
	})
	before := looks.Load()
	busy.Set()
	testkit.Eventually(t, 20*time.Second, func() error {
		if looks.Load() == before {
			return errors.New("it is not heard any more")
		}
		return nil
	})
}

// TestFilesComeAndGo while others do and everybody is called: nothing is missed.
func TestFilesComeAndGo(t *testing.T) {
	l := &Loop{}
	defer l.Close()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 100 {
				e, err := NewEvent()
				if err != nil {
					t.Error(err)
					return
				}
				heard := make(chan struct{}, 1)
				s := l.Add(func(Turn) bool {
					e.Clear()
					select {
					case heard <- struct{}{}:
					default:
					}
					return rand.IntN(2) == 0
				})
				e.Set()
				if err := e.Of(s); err != nil {
					t.Error(err)
				}
				select {
				case <-heard:
				case <-time.After(time.Minute):
					t.Error("it was not heard")
				}
				s.Call()
				s.Unwatch()
				e.Close()
				s.Close()
			}
		})
	}
	all.Wait()
}

// conns gives both ends of a connection, the first one in the loop's way.
func conns(t *testing.T) (*Conn, net.Conn) {
	t.Helper()
	x, y := testkit.Line(t)
	c, err := NewConn(x.(*net.TCPConn))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); y.Close() })
	return c, y
}

func TestReadsDoNotWait(t *testing.T) {
	c, other := conns(t)
	buf := make([]byte, 100)
	for range 2 {
		if n, err := c.Read(buf); n != 0 || !errors.Is(err, ErrNothing) {
			t.Fatalf("of nothing: %d, %v", n, err)
		}
	}
	l := &Loop{}
	defer l.Close()
	got := make(chan string, 10)
	s := l.Add(func(turn Turn) bool {
		if turn == Heard {
			c.Heard()
		}
		n, err := c.Read(buf[:4])
		if errors.Is(err, ErrNothing) {
			return true
		}
		if err != nil {
			got <- err.Error()
			return true
		}
		got <- string(buf[:n])
		return false
	})
	if err := c.Of(s); err != nil {
		t.Fatal(err)
	}
	io.WriteString(other, "abcdef")
	for _, want := range []string{"abcd", "ef"} {
		if came := <-got; came != want {
			t.Errorf("%q came, want %q", came, want)
		}
	}
	other.Close()
	if came := <-got; came != "EOF" {
		t.Errorf("at the end: %q", came)
	}
	s.Close()
}

// TestWritesWait until there is room, for their time, or until the end.
func TestWritesWait(t *testing.T) {
	c, other := conns(t)
	if room := c.Room(); room < 1000 {
		t.Errorf("a fresh connection has room for %d bytes", room)
	}
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<20) // more than any buffer
	c.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
	n, err := c.Write(large)
	if !errors.Is(err, os.ErrDeadlineExceeded) || n == 0 || n == len(large) {
		t.Fatalf("%d written: %v", n, err)
	}
	if room := c.Room(); room > 0 {
		t.Errorf("a full connection has room for %d bytes", room)
	}
	c.SetDeadline(time.Time{})
	written := make(chan error, 1)
	go func() { _, err := c.Write(large[n:]); written <- err }()
	in := make([]byte, len(large))
	if _, err := io.ReadFull(other, in); err != nil || !bytes.Equal(in, large) {
		t.Fatalf("what was written came otherwise: %v", err)
	}
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	go func() { _, err := c.Write(append(large, large...)); written <- err }()
	testkit.Eventually(t, 20*time.Second, func() error {
		if room := c.Room(); room > 0 {
			return fmt.Errorf("room for %d", room)
		}
		return nil
	})
	c.Close()
	if err := <-written; !errors.Is(err, net.ErrClosed) {
		t.Errorf("a write at the end: %v", err)
	}
	if _, err := c.Read(in); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a read at the end: %v", err)
	}
}

// TestAWriteThatCannotWaitIsAnError: the system refuses to poll more files than a process
// may open.
func TestAWriteThatCannotWaitIsAnError(t *testing.T) {
	c, _ := conns(t)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 1, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Fatal(err)
		}
	}()
	written := make(chan error, 1)
	go func() { _, err := c.Write(make([]byte, 16<<20)); written <- err }() // more than any buffer
	select {
	case err := <-written:
		if !errors.Is(err, unix.EINVAL) {
			t.Errorf("got %v, want %v", err, unix.EINVAL)
		}
	case <-time.After(time.Minute):
		t.Error("it is tried again for ever")
	}
}

// TestTLSGoesOnWhereItWas when a record has not come as a whole.
func TestTLSGoesOnWhereItWas(t *testing.T) {
	authority, err := wire.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	of := func(name string) *wire.Identity {
		cert, key, err := authority.Issue(name)
		if err != nil {
			t.Fatal(err)
		}
		id, err := wire.NewIdentity(authority.Certificate(), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	x, in := testkit.Line(t)
	out, y := testkit.Line(t)
	go io.Copy(in, out)
	go func() { // in pieces
		buf := make([]byte, 4000)
		for {
			n, err := in.Read(buf[:1+rand.IntN(len(buf))])
			if err != nil {
				return
			}
			out.Write(buf[:n])
			time.Sleep(100 * time.Microsecond)
		}
	}()
	sender, taker := of("node-1").SecureClient(x, "node-0", "test"), of("node-0").SecureServer(y, "test")
	shaken := make(chan error, 1)
	go func() { shaken <- sender.Handshake() }()
	if err := errors.Join(taker.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	var carrier *Conn
	if err := taker.Carry(func(c net.Conn) (_ net.Conn, err error) {
		carrier, err = NewConn(c.(*net.TCPConn))
		return carrier, err
	}); err != nil {
		t.Fatal(err)
	}
	defer taker.Close()
	defer sender.Close()
	sent := make([]byte, 300_000)
	for i := range sent {
		sent[i] = byte(rand.Int())
	}
	go sender.Write(sent)
	l := &Loop{}
	defer l.Close()
	var got []byte
	nothing, done := 0, make(chan error, 1)
	s := l.Add(func(turn Turn) bool {
		if turn == Heard {
			carrier.Heard()
		}
		buf := make([]byte, 10000)
		n, err := taker.Read(buf)
		if got = append(got, buf[:n]...); errors.Is(err, ErrNothing) {
			nothing++
			return true
		}
		if err != nil || len(got) == len(sent) {
			done <- err
			return true
		}
		return false
	})
	if err := carrier.Of(s); err != nil {
		t.Fatal(err)
	}
	s.Call()
	select {
	case err := <-done:
		if err != nil || !bytes.Equal(got, sent) || nothing < 20 {
			t.Errorf("%d of %d bytes, %d times nothing: %v", len(got), len(sent), nothing, err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it does not come")
	}
}
