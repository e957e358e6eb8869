package locks

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// TestTable compares random locks and unlocks with a table that has one entry for each byte.
func TestTable(t *testing.T) {
	const size = 16
	type byteLock struct{ read, write map[Owner]bool }
	r := rand.New(rand.NewPCG(1, 2)) // not secret
	table, model := New(), [size]byteLock{}
	for i := range model {
		model[i] = byteLock{map[Owner]bool{}, map[Owner]bool{}}
	}
	for i := range 20_000 {
		o := Owner{Client: uint64(r.IntN(3)) + 1, Number: uint64(r.IntN(2)), Whole: r.IntN(2) == 0}
		start := r.IntN(size)
		l := Lock{Owner: o, Start: uint64(start), End: uint64(start + r.IntN(size-start)), Write: r.IntN(2) == 0}
		conflict := false
		for b := l.Start; b <= l.End; b++ {
			for _, of := range []map[Owner]bool{model[b].write, model[b].read} {
				for other := range of {
					conflict = conflict || other != o && other.Whole == o.Whole && (l.Write || model[b].write[other])
				}
			}
		}
		if got := table.Conflict(1, l); (got != nil) != conflict {
			t.Fatalf("step %d: %+v meets %+v, and should: %v", i, l, got, conflict)
		}
		unset, drop := r.IntN(3) == 0, r.IntN(50) == 0
		switch {
		case drop:
			table.Drop(o.Client)
		case unset:
			table.Unset(1, o, l.Start, l.End)
		case conflict:
			continue
		default:
			if err := table.Set(1, l); err != nil {
				t.Fatal(err)
			}
		}
		for b := range model {
			for _, of := range []map[Owner]bool{model[b].write, model[b].read} {
				for other := range of {
					if drop && other.Client == o.Client || !drop && other == o && uint64(b) >= l.Start && uint64(b) <= l.End {
						delete(of, other)
					}
				}
			}
			if !drop && !unset && uint64(b) >= l.Start && uint64(b) <= l.End {
				if l.Write {
					model[b].write[o] = true
				} else {
					model[b].read[o] = true
				}
			}
		}
		count := 0
		for client := uint64(1); client <= 3; client++ {
			all := table.All(client)
			count += len(all)
			if len(all) != table.count[client] || table.Any(client) != (len(all) > 0) {
				t.Fatalf("step %d: client %d has %d locks, and counts %d", i, client, len(all), table.count[client])
			}
		}
		if count != len(table.files[1]) {
			t.Fatalf("step %d: %d of %d locks belong to a client", i, count, len(table.files[1]))
		}
	}
}

// TestBounds locks to the end of everything, and as often as one may.
func TestBounds(t *testing.T) {
	table := New()
	o := Owner{Client: 1}
	if err := table.Set(1, Lock{Owner: o, End: math.MaxUint64}); err != nil {
		t.Fatal(err)
	}
	table.Unset(1, o, 5, 5)
	if got := table.All(1); len(got) != 2 {
		t.Errorf("%+v", got)
	}
	var err error
	for i := uint64(0); err == nil && i <= Most; i++ {
		err = table.Set(2, Lock{Owner: o, Start: 2 * i, End: 2 * i})
	}
	if !errors.Is(err, ErrMany) {
		t.Errorf("%v", err)
	}
	if err := table.Set(2, Lock{Owner: Owner{Client: 2}, Start: 1, End: 1, Write: true}); err != nil {
		t.Errorf("another client: %v", err)
	}
}
