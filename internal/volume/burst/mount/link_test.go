package mount

import (
	"log/slog"
	"testing"

	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/locks"
)

// TestClaims: a client comes back without the locks that it may have released, and with one for reading
// where one for writing may have become that.
func TestClaims(t *testing.T) {
	lock := func(mode uint32, off, size int64) *calls.Request {
		return &calls.Request{Op: calls.Lock, Ino: 5, Owner: 1, Mode: mode, Off: off, Size: size}
	}
	for name, c := range map[string]struct {
		waiting *calls.Request
		want    []locks.Lock
	}{
		"no request":         {nil, []locks.Lock{{Start: 0, End: 99, Write: true}}},
		"another file":       {&calls.Request{Op: calls.Lock, Ino: 6, Owner: 1, Mode: calls.LockNone, Size: 99}, []locks.Lock{{Start: 0, End: 99, Write: true}}},
		"a release":          {lock(calls.LockNone, 0, 99), nil},
		"a release of part":  {lock(calls.LockNone, 50, 99), []locks.Lock{{Start: 0, End: 49, Write: true}}},
		"a close":            {&calls.Request{Op: calls.Flush, Ino: 5, Owner: 1, Flags: calls.Owned}, nil},
		"a lock for reading": {lock(calls.LockRead, 50, 200), []locks.Lock{{Start: 0, End: 49, Write: true}, {Start: 50, End: 99}}},
		"a lock for writing": {lock(calls.LockWrite, 50, 200), []locks.Lock{{Start: 0, End: 99, Write: true}}},
		"a look":             {&calls.Request{Op: calls.Lock, Ino: 5, Owner: 1, Mode: calls.LockNone, Size: 99, Flags: calls.Test}, []locks.Lock{{Start: 0, End: 99, Write: true}}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLink(burst.Config{}, "", slog.New(slog.DiscardHandler))
			l.locked(lock(calls.LockWrite, 0, 99), &calls.Reply{})
			if c.waiting != nil {
				l.waiting[1] = &waiting{q: c.waiting}
			}
			got := l.claims()
			if len(got) != len(c.want) {
				t.Fatalf("claimed: %+v", got)
			}
			for i, want := range c.want {
				want.Owner = locks.Owner{Client: l.client, Number: 1}
				if got[i].Ino != 5 || got[i].Lock != want {
					t.Errorf("claimed: %+v", got[i])
				}
			}
		})
	}
}
