package execute

import (
	"os"
	"sync/atomic"
	"testing"
	"time"
)

// pipe gives one that the test does not leave behind.
func pipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// drained reports when what Drain waits for is over.
func drained(o *Output) <-chan struct{} {
	done := make(chan struct{})
	go func() { o.Drain(); close(done) }()
	return done
}

// TestASlowTakerGetsAll: what is in a pipe when its command ends is taken as slowly as
// anyone who takes it likes.
func TestASlowTakerGetsAll(t *testing.T) {
	r, w := pipe(t)
	const size = pieceSize + 5
	w.Write(make([]byte, size)) // what is missing is noticed
	w.Close()
	slow, got := make(chan struct{}), atomic.Int64{}
	var o Output
	o.Pass(r, func(data []byte) error {
		<-slow
		got.Add(int64(len(data)))
		return nil
	})
	done := drained(&o)
	select {
	case <-done:
		t.Error("what is not taken yet is not waited for")
	case <-time.After(2 * quiet):
	}
	close(slow)
	<-done
	if got.Load() != size {
		t.Errorf("%d bytes of %d were taken", got.Load(), size)
	}
}

// TestWhoHoldsAPipeIsNotWaitedFor, whether he writes to it or not.
func TestWhoHoldsAPipeIsNotWaitedFor(t *testing.T) {
	r, _ := pipe(t)
	var silent Output
	silent.Pass(r, func([]byte) error { return nil })
	<-drained(&silent)
	r, w := pipe(t)
	var loud Output
	loud.Pass(r, func([]byte) error { return nil })
	go func() {
		for {
			if _, err := w.Write(make([]byte, pieceSize)); err != nil {
				return
			}
		}
	}()
	<-drained(&loud)
}
