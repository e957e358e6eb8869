package wire

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// line is one direction of a connection whose buffers hold much, and that is slow.
type line struct {
	io.Reader
	waiting chan []byte
	gone    chan struct{}
}

// newLine makes one that holds so many pieces of 16 KiB, and passes on one each so
// often.
func newLine(holds int, each time.Duration) *line {
	r, w := io.Pipe()
	l := &line{r, make(chan []byte, holds), make(chan struct{})}
	go func() {
		defer w.Close()
		for {
			select {
			case b := <-l.waiting:
				time.Sleep(each)
				if _, err := w.Write(b); err != nil {
					return
				}
			case <-l.gone:
				return
			}
		}
	}()
	return l
}

func (l *line) Write(b []byte) (int, error) {
	for rest := b; len(rest) > 0; {
		n := min(len(rest), 16<<10)
		select {
		case l.waiting <- bytes.Clone(rest[:n]):
		case <-l.gone:
			return 0, net.ErrClosed
		}
		rest = rest[n:]
	}
	return len(b), nil
}

// ends are those of a connection of two lines.
type ends struct {
	io.Reader
	io.Writer
	close func() error
}

func (e ends) Close() error { return e.close() }

// TestBulkIsNoSilence: what goes over a slow line takes longer to pass its buffers
// than an end may be silent, and neither end takes the other for gone.
func TestBulkIsNoSilence(t *testing.T) {
	t.Parallel()
	up, down := newLine(120, 60*time.Millisecond), newLine(120, 60*time.Millisecond) // more than 7 s each
	near, err := NewPeer(ends{down, up, func() error { close(up.gone); return nil }}, true, "far", Prompt)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := NewPeer(ends{up, down, func() error { close(down.gone); return nil }}, false, "near", Prompt)
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	const size = 2 << 20
	go answerAll(far, func(s *Stream) {
		var what string
		if ReadMessage(s, &what) != nil {
			return
		}
		if what == "give" {
			s.Write(make([]byte, size))
			return
		}
		if n, err := io.Copy(io.Discard, io.LimitReader(s, size)); err == nil {
			WriteMessage(s, n) //nolint:errcheck // the other end notices
		}
	})
	var both sync.WaitGroup
	for _, method := range []string{"take", "give"} {
		both.Go(func() {
			var n int64
			s, err := near.OpenStream()
			if err == nil {
				err = WriteMessage(s, method)
			}
			if err == nil && method == "take" {
				if _, err = s.Write(make([]byte, size)); err == nil {
					err = ReadMessage(s, &n)
				}
			} else if err == nil {
				n, err = io.Copy(io.Discard, s)
			}
			if err != nil || n != size {
				t.Errorf("%s: %d bytes of %d have passed: %v", method, n, size, err)
			}
		})
	}
	both.Wait()
}

// TestABrokenConnectionIsALoss: a goroutine that writes into a stream learns what it was that
// ended.
func TestABrokenConnectionIsALoss(t *testing.T) {
	a, b := net.Pipe()
	near, err := NewPeer(a, true, "far", Prompt)
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := NewPeer(b, false, "near", Prompt)
	if err != nil {
		t.Fatal(err)
	}
	go answerAll(far, func(s *Stream) {
		io.ReadFull(s, make([]byte, 1)) //nolint:errcheck // any end is one
		far.Close()
	})
	s, err := near.OpenStream()
	if err != nil {
		t.Fatal(err)
	}
	s.Write([]byte("x"))
	<-near.Done()
	if _, err := s.Write(make([]byte, 1<<20)); !core.IsKind(err, core.Lost) {
		t.Errorf("got %v, want a loss", err)
	}
}
