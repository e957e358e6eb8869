package meta

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst/buffer"
)

// TestExtents writes and cuts at random, and compares each byte with an array.
func TestExtents(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1)) // not secret
		const size = 200
		var list []Extent
		records := map[int64][]byte{}
		want := make([]byte, size)
		kept := list
		before := bytes.Clone(want)
		for step := range int64(60) {
			switch r.IntN(8) {
			case 0:
				at := r.Int64N(size)
				list = cut(list, at)
				clear(want[at:])
			case 1: // what was kept of before stays as it was
				if got := flat(kept, records, size); !bytes.Equal(got, before) {
					t.Fatalf("seed %d, step %d: a kept version has changed", seed, step)
				}
				kept, before = list[:len(list):len(list)], bytes.Clone(want)
			default:
				off := r.Int64N(size - 1)
				data := make([]byte, 1+r.Int64N(min(30, size-off)))
				for i := range data {
					data[i] = byte(1 + r.IntN(255))
				}
				records[step] = data
				list = insert(list, Extent{Off: off, Len: int64(len(data)), Rec: buffer.Place{At: step, Len: int64(len(data))}})
				copy(want[off:], data)
			}
			if got := flat(list, records, size); !bytes.Equal(got, want) {
				t.Fatalf("seed %d, step %d:\n%v\n%v", seed, step, got, want)
			}
			for i := 1; i < len(list); i++ {
				if list[i].Off < list[i-1].End() || list[i].Len <= 0 {
					t.Fatalf("seed %d, step %d: %v", seed, step, list)
				}
			}
		}
	}
}

// TestAnswersAreKnownByAge: that to a request that has waited for long is as new as any other, also for the
// next process.
func TestAnswersAreKnownByAge(t *testing.T) {
	s := New()
	for id := range uint64(3 * remembered) {
		s.answer(1, id+2, 0)
	}
	s.answer(1, 3*remembered+1, 0) // the second change of one request
	s.answer(1, 1, 7)
	raw, err := s.Encode()
	if err == nil {
		s, err = Decode(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.answer(1, 4*remembered, 0)
	if made, was := s.Answered(1, 1); !was || made != 7 {
		t.Errorf("the last answer but one is forgotten: %d, %v", made, was)
	}
	if a := s.answered[1]; len(a.Made) > remembered || len(a.Order) != len(a.Made) {
		t.Errorf("%d answers are known, and the order of %d", len(a.Made), len(a.Order))
	}
}

func flat(list []Extent, records map[int64][]byte, size int) []byte {
	got := make([]byte, size)
	for _, e := range Between(list, 0, int64(size)) {
		copy(got[e.Off:e.End()], records[e.Rec.At][e.Skip:e.Skip+e.Len])
	}
	return got
}
