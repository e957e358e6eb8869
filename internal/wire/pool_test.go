package wire

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"io"
	mrand "math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
)

// poolPair is both ends of a pool of one connection.
func poolPair() (leader, other *ConnPool) {
	a, b := net.Pipe()
	return NewConnPool(a, true), NewConnPool(b, false)
}

// add gives both ends connections.
func addPooled(leader, other *ConnPool, n int) {
	var near, far []io.ReadWriteCloser
	for range n {
		a, b := net.Pipe()
		near, far = append(near, a), append(far, b)
	}
	other.Add(far...)
	leader.Add(near...)
}

// TestConnectionsJoinAndLeaveAPool while both ends write all the time, in pieces of all sizes.
func TestConnectionsJoinAndLeaveAPool(t *testing.T) {
	leader, other := poolPair()
	defer leader.Close()
	defer other.Close()
	type sums struct{ sent, got [32]byte }
	run := func(from, to *ConnPool, stop <-chan struct{}, out chan<- sums) {
		var s sums
		sent := sha256.New()
		got := make(chan []byte)
		const end = "end of it"
		go func() {
			sum, tail, buf := sha256.New(), []byte{}, make([]byte, 100_000)
			for {
				n, err := to.Read(buf[:1+mrand.IntN(len(buf))])
				tail = append(tail, buf[:n]...)
				if bytes.HasSuffix(tail, []byte(end)) || err != nil {
					sum.Write(tail)
					got <- sum.Sum(nil)
					return
				}
				if keep := len(end); len(tail) > keep {
					sum.Write(tail[:len(tail)-keep])
					tail = append([]byte(nil), tail[len(tail)-keep:]...)
				}
			}
		}()
		write := func(b []byte) {
			sent.Write(b)
			if _, err := from.Write(b); err != nil {
				panic(err) // else it continues for ever
			}
		}
		block := make([]byte, 200_000)
		rand.Read(block)
		for {
			select {
			case <-stop:
				write([]byte(end))
				s.sent, s.got = [32]byte(sent.Sum(nil)), [32]byte(<-got)
				out <- s
				return
			default:
				write(block[:1+mrand.IntN(1<<mrand.IntN(18))])
			}
		}
	}
	stop, done := make(chan struct{}), make(chan sums, 2)
	go run(leader, other, stop, done)
	go run(other, leader, stop, done)
	settle := func(want int) {
		testkit.Eventually(t, 10*time.Second, func() error {
			for _, l := range []*ConnPool{leader, other} {
				if n, ok := l.Settled(); !ok || n != want {
					return errors.New("not settled")
				}
			}
			return nil
		})
		time.Sleep(10 * time.Millisecond) // in which they are used
	}
	for range 20 {
		addPooled(leader, other, 1)
		settle(2)
		addPooled(leader, other, 5)
		settle(7)
		leader.Narrow()
		settle(1)
	}
	close(stop)
	for range 2 {
		if s := <-done; s.sent != s.got {
			t.Error("what came is not what was sent")
		}
	}
	if wrote, read := leader.Moved(); wrote == 0 || read == 0 {
		t.Error("nothing was counted")
	}
}

// TestALaneThatBreaks breaks the connection, at both ends.
func TestALaneThatBreaks(t *testing.T) {
	leader, other := poolPair()
	a, b := net.Pipe()
	other.Add(b)
	leader.Add(a)
	ended := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, other); ended <- err }()
	block := make([]byte, 300_000)
	if _, err := leader.Write(block); err != nil {
		t.Fatal(err)
	}
	a.Close()
	if _, err := leader.Write(block); err == nil {
		t.Error("writing goes on")
	}
	leader.Close()
	<-ended //nolint:errcheck // it was cut off
	if _, err := other.Write(block); err == nil {
		t.Error("the other end writes on")
	}
}

// TestDamagedPools end with an error, and take no memory.
func TestDamagedPools(t *testing.T) {
	for _, head := range []string{"\x00\x00\x00\x01", "\x09\x00\x00\x01", "\x01\x00\x00\x00", "\x01\xff\xff\xff"} {
		a, b := net.Pipe()
		go io.WriteString(a, head+"x")
		if _, err := NewConnPool(b, false).Read(make([]byte, 10)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q: %v", head, err)
		}
		a.Close()
	}
}
