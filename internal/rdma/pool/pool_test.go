package pool

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func newPool(t *testing.T, bytes int64) (*Pool, *time.Time) {
	t.Helper()
	p, err := New(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	now := time.Now()
	p.now = func() time.Time { return now }
	return p, &now
}

// taken is how much of the host's memory the pool takes, without the block.
func (p *Pool) taken(t *testing.T) int64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Fstat(int(p.file.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks*512 - blockBytes
}

// TestRanges takes and frees ranges at random: none overlaps another, all are zeros, and what is free takes no memory.
func TestRanges(t *testing.T) {
	p, now := newPool(t, 64<<20)
	if p.Size() != step {
		t.Fatalf("the pool has %d bytes", p.Size())
	}
	r := rand.New(rand.NewPCG(1, 98))
	var has []span
	var used int64
	for range 3000 {
		if r.IntN(2) == 0 && len(has) > 0 {
			i := r.IntN(len(has))
			p.Free(has[i].at, has[i].bytes)
			used -= has[i].bytes
			has = slices.Delete(has, i, i+1)
			*now = now.Add(time.Duration(r.IntN(500)) * time.Millisecond)
			continue
		}
		n := (1 + r.Int64N(600)) * page
		at, err := p.Take(n)
		if full, is := errors.AsType[*FullError](err); is {
			if full.Rest <= 0 || full.Rest > rest {
				t.Fatalf("the next range is free in %v", full.Rest)
			}
			*now = now.Add(full.Rest)
			continue
		}
		if err != nil || at < Data || at%page != 0 || at+n > p.Size() {
			t.Fatalf("%d bytes at %d: %v", n, at, err)
		}
		for _, other := range has {
			if at < other.end() && other.at < at+n {
				t.Fatalf("%d bytes at %d overlap %+v", n, at, other)
			}
		}
		raw := make([]byte, page)
		if _, err := p.file.ReadAt(raw, at+n-page); err != nil || !bytes.Equal(raw, make([]byte, page)) {
			t.Fatalf("a new range has what another has left: %v", err)
		}
		if _, err := p.file.WriteAt([]byte("mine"), at+n-page); err != nil {
			t.Fatal(err)
		}
		has, used = append(has, span{at, n}), used+n
	}
	if got := p.taken(t); got != int64(len(has))*page {
		t.Errorf("%d ranges with a page each take %d bytes", len(has), got)
	}
	for _, s := range has {
		p.Free(s.at, s.bytes)
	}
	*now = now.Add(rest)
	if at, err := p.Take(p.Size() - Data); err != nil || at != Data || p.taken(t) != 0 {
		t.Errorf("the whole, after all was freed: at %d, %v, with %d bytes", at, err, p.taken(t))
	}
}

// TestFreedRangesRest: a program that still writes to a range that was freed changes no other's, and the next one that
// gets it finds zeros.
func TestFreedRangesRest(t *testing.T) {
	p, now := newPool(t, step-Data)
	at, err := p.Take(p.Size() - Data)
	if err != nil {
		t.Fatal(err)
	}
	p.Free(at, p.Size()-Data)
	if full, is := errors.AsType[*FullError](func() error { _, err := p.Take(1); return err }()); !is || full.Rest != rest {
		t.Errorf("a range that was just freed: %+v", full)
	}
	if _, err := p.file.WriteAt([]byte("late"), at); err != nil {
		t.Fatal(err)
	}
	*now = now.Add(rest)
	again, err := p.Take(1)
	if err != nil {
		t.Fatal(err)
	}
	raw := make([]byte, 4)
	if _, err := p.file.ReadAt(raw, again); err != nil || !bytes.Equal(raw, make([]byte, 4)) {
		t.Errorf("the next one finds %q, %v", raw, err)
	}
	for _, n := range []int64{0, -1, p.Size(), 1 << 62} {
		if at, err := p.Take(n); err == nil {
			t.Errorf("%d bytes are at %d", n, at)
		}
	}
	if pool, err := New(0); err == nil {
		t.Errorf("a pool of nothing: %+v", pool)
	}
}

// TestBlock compares the block with one that Linux 6.1 has taken for one.
func TestBlock(t *testing.T) {
	b := block(256<<20, [16]byte{0: 1, 15: 2})
	want := "4e5644494d4d5f4441585f494e464f00" + "01000000000000000000000000000002" + "00000000000000000000000000000000" +
		"00000000" + "01000400" + "0000200000000000" + "00fe000000000000" + "01000000" + "00000000" + "00000000" + "00100000" + "00100000" + "4000"
	if got := hex.EncodeToString(b[:94]); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := hex.EncodeToString(b[placeChecksum:]); got != "6d6077d9644d6ff5" {
		t.Errorf("the checksum is %s", got)
	}
}
