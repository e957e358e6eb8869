package cloud

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
)

// countedLists counts how often an account is listed.
type countedLists struct {
	*account
	n   atomic.Int32
	err error
}

// Owned implements API.
func (c *countedLists) Owned(ctx context.Context, q core.Owner) ([]Machine, error) {
	c.n.Add(1)
	if c.err != nil {
		return nil, c.err
	}
	return c.account.Owned(ctx, q)
}

// TestOneListForManyRuns: leases of one process whose machines run are looked at by one list, also where the cloud refuses
// it. What does not run is looked at by itself.
func TestOneListForManyRuns(t *testing.T) {
	const runs = 1000
	counted, shared, dir := &countedLists{account: newAccount()}, &Lists{}, t.TempDir()
	rent := func(run string) *lease {
		p := newProvider(t, counted.account, dir, time.Minute).(*provider)
		p.s.Lists, p.s.Account, p.s.Bastion, p.api = shared, "stand-in", "gate", counted // none is admitted from other addresses
		l, err := p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1})
		if err != nil {
			t.Fatal(err)
		}
		return l.(*lease)
	}
	one, other := rent("one"), rent("other")
	all := shared.of("u stand-in")
	look := func(l *lease) (driver.Status, error) { return l.Status(t.Context()) }
	calls := func(do func()) int32 {
		before := counted.n.Load()
		do()
		return counted.n.Load() - before
	}
	everybody := func() {
		var wg sync.WaitGroup
		for n := range runs {
			l := []*lease{one, other}[n%2]
			wg.Go(func() {
				if st, err := look(l); (err != nil || !st.Live) && counted.err == nil {
					t.Errorf("%+v, %v", st, err)
				}
			})
		}
		wg.Wait()
	}
	lists := func(what string) {
		t.Helper()
		all.asked = time.Time{}
		begun := time.Now()
		if n, most := calls(everybody), int32(1+time.Since(begun)/listAge); n < 1 || n > most { // more on a busy machine
			t.Errorf("%d runs make %d lists%s, expected up to %d", runs, n, what, most)
		}
	}
	lists("")
	counted.err = &core.Error{Kind: core.Transient, Err: errors.New("throttled")}
	lists(" that are refused")
	if _, err := look(one); !core.IsKind(err, core.Transient) {
		t.Errorf("got %v", err)
	}
	counted.err, all.asked = nil, time.Time{}
	counted.set(one.r.Machines, Ended)
	if st, err := look(one); err != nil || st.Live {
		t.Errorf("of a machine that has ended: %+v, %v", st, err)
	}
	if st, err := look(other); err != nil || !st.Live {
		t.Errorf("beside it: %+v, %v", st, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	all.asked = time.Time{}
	if _, err := other.Status(gone); !core.Interrupted(err) {
		t.Errorf("of a caller that has gone: %v", err)
	}
	if st, err := look(other); err != nil || !st.Live {
		t.Errorf("after it: %+v, %v", st, err)
	}
}

// TestSlowListsAreShared: a list that takes longer than it counts serves all who have waited for it. Who comes later asks
// again.
func TestSlowListsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		l := (&Lists{}).of("stand-in")
		look := func() {
			if _, err := l.read(t.Context(), func(ctx context.Context) ([]Machine, error) {
				asked.Add(1)
				return nil, core.Sleep(ctx, 2*listAge)
			}); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		for range 100 {
			all.Go(look)
		}
		all.Wait()
		if n := asked.Load(); n != 1 {
			t.Errorf("%d lists", n)
		}
		if look(); asked.Load() != 2 {
			t.Errorf("%d lists, with one of a caller who came later", asked.Load())
		}
	})
}
