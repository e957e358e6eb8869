package remote

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// distant is a file behind a line with a long round trip.
type distant struct {
	data   []byte
	mu     sync.Mutex
	reads  int
	failed map[int64]error // once
	closed bool
}

const farAway = 100 * time.Millisecond

func (d *distant) Version() Version      { return Version{Size: int64(len(d.data))} }
func (d *distant) Now() (Version, error) { return d.Version(), nil }
func (d *distant) Close() error          { d.closed = true; return nil }

func (d *distant) Read(_ context.Context, p []byte, off int64) (int, error) {
	time.Sleep(farAway) // of the test's clock
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads++
	if err := d.failed[off]; err != nil {
		delete(d.failed, off)
		return 0, err
	}
	return copy(p, d.data[off:]), nil
}

// TestReadAhead: reads in order overlap, and all have the file's content. Others are one request each.
func TestReadAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, pieces = 1000, 40
		d := &distant{data: bytes.Repeat([]byte("0123456789"), size*pieces/10+1), failed: map[int64]error{20 * size: errors.New("the line broke")}}
		a := NewAhead(6)
		f := a.Source(d)
		read := func(off int64, n int) {
			t.Helper()
			p := make([]byte, n)
			want := d.data[off:min(int64(len(d.data)), off+int64(n))]
			if got, err := f.Read(t.Context(), p[:len(want)], off); err != nil || !bytes.Equal(p[:got], want) {
				t.Errorf("at %d: %d bytes, %v", off, got, err)
			}
		}
		begun := time.Now()
		for off := int64(0); off < int64(len(d.data)); off += size {
			read(off, size)
		}
		if took := time.Since(begun); took > pieces*farAway/3 || d.reads > pieces+3 {
			t.Errorf("it took %s and %d requests, one after the other %s", took, d.reads, pieces*farAway)
		}
		d.reads = 0
		for i := range int64(10) { // in no order
			read(i*7%10*3*size, size)
		}
		synctest.Wait()
		if d.reads != 10 {
			t.Errorf("%d requests for 10 reads in no order", d.reads)
		}
		for i := range int64(4) {
			read(i*size, size)
		}
		synctest.Wait()
		time.Sleep(aheadFor + farAway/2) // it has arrived a shorter time ago
		before := d.reads
		copy(d.data[4*size:], "changed")
		if read(4*size, size); d.reads == before {
			t.Error("what was read ahead long ago still counts")
		}
		read(5*size, size)
		if err := f.Close(); err != nil || !d.closed {
			t.Errorf("it is not closed: %v", err)
		}
		synctest.Wait()
		time.Sleep(time.Second)
		if len(a.room) != 0 {
			t.Errorf("%d pieces are kept for ever", len(a.room))
		}
	})
}

// TestPiecesThatNobodyReads leave their room to other files, although their file stays open.
func TestPiecesThatNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, pieces = 10, 20
		a := NewAhead(1)
		readTo := func(f Source, end int64) {
			for off := int64(0); off < end; off += size {
				if n, err := f.Read(t.Context(), make([]byte, size), off); n != size || err != nil {
					t.Errorf("%d, %v", n, err)
				}
			}
		}
		left := a.Source(&distant{data: make([]byte, size*pieces)})
		defer left.Close()
		readTo(left, 4*size)
		time.Sleep(2 * aheadFor)
		if len(a.room) != 1 {
			t.Fatalf("%d pieces are kept", len(a.room))
		}
		f := a.Source(&distant{data: make([]byte, size*pieces)})
		defer f.Close()
		begun := time.Now()
		if readTo(f, size*pieces); time.Since(begun) > pieces*farAway*2/3 {
			t.Errorf("it took %s, one request after the other %s", time.Since(begun), pieces*farAway)
		}
	})
}

// TestASlowProgram does not have pieces read twice again and again.
func TestASlowProgram(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, pieces = 10, 40
		d := &distant{data: make([]byte, size*pieces)}
		f := NewAhead(16).Source(d)
		defer f.Close()
		for off := int64(0); off < size*pieces; off += size {
			if n, err := f.Read(t.Context(), make([]byte, size), off); n != size || err != nil {
				t.Errorf("%d, %v", n, err)
			}
			time.Sleep(2 * aheadFor)
		}
		if d.reads > pieces+2*mostAhead {
			t.Errorf("%d requests for %d reads", d.reads, pieces)
		}
	})
}

// TestReadAheadIsBounded: many files have no more pieces than there is room for, and are read all the same.
func TestReadAheadIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := NewAhead(3)
		var all sync.WaitGroup
		for range 5 {
			f := a.Source(&distant{data: make([]byte, 100)})
			all.Go(func() {
				for off := int64(0); off < 100; off += 10 {
					if n, err := f.Read(t.Context(), make([]byte, 10), off); n != 10 || err != nil {
						t.Errorf("%d, %v", n, err)
					}
				}
				if err := f.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Second)
		if len(a.room) != 0 {
			t.Errorf("%d pieces are kept for ever", len(a.room))
		}
	})
}
