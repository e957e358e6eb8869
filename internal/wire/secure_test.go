package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/testkit"
	"golang.org/x/sys/unix"
)

// counted is a connection that counts writes.
type counted struct {
	net.Conn
	writes atomic.Int32
}

func (c *counted) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// secured gives both ends of a connection after their handshake, whose bytes go through
// relay, if there is one.
func secured(t testing.TB, relay func(to, from net.Conn)) (client, server *Secure, beneath *counted) {
	t.Helper()
	authority, err := NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	var ids []*Identity
	for _, name := range []string{"client", "server"} {
		cert, key, err := authority.Issue(name)
		if err != nil {
			t.Fatal(err)
		}
		id, err := NewIdentity(authority.Certificate(), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, id)
	}
	a, b := testkit.Line(t)
	if relay != nil {
		c, d := testkit.Line(t)
		go relay(c, b)
		go relay(b, c)
		b = d
	}
	beneath = &counted{Conn: a}
	client, server = ids[0].SecureClient(beneath, "server", "test"), ids[1].SecureServer(b, "test")
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	if err := errors.Join(client.Handshake(), <-shaken); err != nil {
		t.Fatal(err)
	}
	return client, server, beneath
}

func noise(size int) []byte {
	b := make([]byte, size)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}

// TestAWriteLeavesAtOnce, of whatever size, and what comes is what was written.
func TestAWriteLeavesAtOnce(t *testing.T) {
	client, server, beneath := secured(t, nil)
	sizes := []int{1, 4, 1500, mostInRecord, mostInRecord + 1, 72 << 10, 3, 300 << 10, 60000}
	var want bytes.Buffer
	for _, size := range sizes {
		want.Write(noise(size))
	}
	got := make(chan []byte)
	go func() {
		b := make([]byte, want.Len())
		io.ReadFull(server, b) //nolint:errcheck // what is missing shows
		got <- b
	}()
	sent := want.Bytes()
	for _, size := range sizes {
		before := beneath.writes.Load()
		if n, err := client.Write(sent[:size]); n != size || err != nil {
			t.Fatalf("of %d bytes %d were written: %v", size, n, err)
		}
		// The first records of a connection are small, so what is shorter may be two.
		if n := beneath.writes.Load() - before; n != 1 && size > mostInRecord {
			t.Errorf("%d bytes left in %d writes", size, n)
		}
		sent = sent[size:]
	}
	if !bytes.Equal(<-got, want.Bytes()) {
		t.Error("something else came")
	}
}

// TestAStuckWriteHoldsUpNoEnd of a connection, and nothing continues behind what it lost.
func TestAStuckWriteHoldsUpNoEnd(t *testing.T) {
	stick := func(client *Secure) chan error {
		ended := make(chan error, 1)
		go func() {
			for big := make([]byte, 1<<20); ; {
				if _, err := client.Write(big); err != nil {
					ended <- err
					return
				}
			}
		}()
		for last := -1; ; { // until nothing goes any more
			time.Sleep(100 * time.Millisecond)
			now := int(client.beneath.Conn.(*counted).writes.Load())
			if now == last {
				return ended
			}
			last = now
		}
	}
	client, _, _ := secured(t, nil)
	ended := stick(client)
	if err := client.Close(); err != nil { // as of a last word that was waited for without success
		t.Error(err)
	}
	<-ended //nolint:errcheck // it was cut off
	client, _, _ = secured(t, nil)
	ended = stick(client)
	client.SetWriteDeadline(time.Now())
	if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("at the deadline: %v", err)
	}
	client.SetWriteDeadline(time.Time{})
	for _, size := range []int{1, 72 << 10} {
		if _, err := client.Write(make([]byte, size)); err == nil {
			t.Errorf("%d bytes went behind what was lost", size)
		}
	}
}

// TestNothingIsLostOnTheWayFromTLS: both ends send in clear as soon as they may, however
// the network splits and joins what they send.
func TestNothingIsLostOnTheWayFromTLS(t *testing.T) {
	bytewise := func(to, from net.Conn) {
		buf := make([]byte, 1)
		for {
			n, err := from.Read(buf)
			if err != nil {
				return
			}
			to.Write(buf[:n])
		}
	}
	joined := func(to, from net.Conn) { // what comes within some time
		buf := make([]byte, 64<<10)
		for have := 0; ; {
			from.SetReadDeadline(time.Now().Add(3 * time.Millisecond))
			n, err := from.Read(buf[have:])
			have += n
			switch {
			case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
				return
			case err != nil || have == len(buf):
				to.Write(buf[:have])
				have = 0
			}
		}
	}
	for name, relay := range map[string]func(to, from net.Conn){"as it comes": nil, "byte by byte": bytewise, "joined": joined} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				client, server, _ := secured(t, relay)
				sent := map[*Secure][]byte{client: noise(20000), server: noise(20000)}
				var both sync.WaitGroup
				for _, ends := range [][2]*Secure{{client, server}, {server, client}} {
					both.Go(func() {
						c, err := ends[0].Clear(t.Context())
						if err != nil {
							t.Error(err)
							return
						}
						both.Go(func() { c.Write(sent[ends[0]]) })
						got := make([]byte, len(sent[ends[1]]))
						c.SetReadDeadline(time.Now().Add(time.Minute))
						if n, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, sent[ends[1]]) {
							t.Errorf("%d bytes came, or others: %v", n, err)
						}
					})
				}
				if both.Wait(); t.Failed() {
					return
				}
			}
		})
	}
}

// TestWhoWaitsForClearGivesUp when the other end reports so, or hears something else.
func TestWhoWaitsForClearGivesUp(t *testing.T) {
	client, _, _ := secured(t, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	time.AfterFunc(50*time.Millisecond, func() { cancel(why) })
	if _, err := client.Clear(ctx); !errors.Is(err, why) {
		t.Errorf("the client: %v", err)
	}
	client, server, _ := secured(t, nil)
	client.Write([]byte("x"))
	if _, err := server.Clear(t.Context()); err == nil {
		t.Error("the server takes anything for the word")
	}
}

// BenchmarkWrite sends what a link's queue gives at once, by TLS as it is and by ours: how
// much of it for each second of processor time, both ends together.
func BenchmarkWrite(b *testing.B) {
	const size = 72 << 10
	for name, by := range map[string]func(s *Secure) net.Conn{"a call for each record": func(s *Secure) net.Conn { return s.Conn }, "one call": func(s *Secure) net.Conn { return s }} {
		b.Run(name, func(b *testing.B) {
			client, server, _ := secured(b, nil)
			done := make(chan error)
			go func() {
				_, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, io.LimitReader(server, int64(b.N)*size), make([]byte, size))
				done <- err
			}()
			begun, chunk := processorTime(b), noise(size)
			for range b.N {
				if _, err := by(client).Write(chunk); err != nil {
					b.Fatal(err)
				}
			}
			if err := <-done; err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(b.N)*size/1e6/(processorTime(b)-begun).Seconds(), "MB/cpu-s")
		})
	}
}

// processorTime is what this process has used.
func processorTime(t testing.TB) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
