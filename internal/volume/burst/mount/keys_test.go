package mount

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/rpc"
	"github.com/bee-hpc/bee/internal/volume/burst"
	"github.com/bee-hpc/bee/internal/volume/burst/calls"
	"github.com/bee-hpc/bee/internal/volume/burst/remote"
	"github.com/bee-hpc/bee/internal/wire"
)

// asked stands for an I/O process: it notes the keys that it is offered, and has drained once it has some.
type asked struct {
	mu      sync.Mutex
	offers  []string // ids
	refuses string   // an id
	drains  string   // with the keys of an id
}

func (a *asked) ids() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.offers
}

// answer has it answer the calls about a volume.
func (a *asked) answer(t *testing.T, c burst.Config) {
	table := rpc.NewServer(nil)
	rpc.Handle(table, calls.OfferKeys, func(_ context.Context, _ rpc.Caller, q calls.KeysOffer) (r calls.KeysReply, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.offers = append(a.offers, q.Keys.ID); q.Keys.ID == a.refuses {
			r.Refused = "AccessDenied"
		}
		return r, nil
	})
	rpc.Handle(table, calls.Publish, func(context.Context, rpc.Caller, rpc.None) (calls.Published, error) {
		return calls.Published{}, nil
	})
	rpc.Handle(table, calls.StatusCall, func(context.Context, rpc.Caller, rpc.None) (calls.Status, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		return calls.Status{Drained: len(a.offers) > 0 && a.offers[len(a.offers)-1] == a.drains}, nil
	})
	l, err := c.Listen()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go new(wire.Gate).Serve(l, func(conn net.Conn, known func() bool) {
		if known() {
			serveCalls(t, conn, table)
		}
	})
}

// TestNewestKeys are passed to the I/O process once, by a look at it, and by who waits for a drain. Those that it or the
// attempt refuses are an error, and are used nowhere.
func TestNewestKeys(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c := burst.Config{ID: "1a2b3c4d", Remote: "s3://bucket", At: remote.Place{Bucket: "bucket"}, Dir: filepath.Join(dir, "1a2b3c4d"), Sent: true}
	if err := errors.Join(fsutil.OwnDir(c.Dir), c.Save()); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	now := &core.BucketKeys{ID: "first"}
	renew := func(id string) {
		mu.Lock()
		defer mu.Unlock()
		now = &core.BucketKeys{ID: id}
	}
	c.Keys = now
	a := &Attempt{config: c, keys: func() *core.BucketKeys {
		mu.Lock()
		defer mu.Unlock()
		return now
	}}
	if err := a.UseKeys(t.Context(), core.BucketKeys{ID: "x", Endpoint: "https://elsewhere.example.org"}); !core.IsKind(err, core.Invalid) {
		t.Errorf("for another server: %v", err)
	}
	process := &asked{refuses: "bad", drains: "third"}
	process.answer(t, c)
	look := func(want int) {
		t.Helper()
		for range 3 {
			if _, err := a.Status(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if ids := process.ids(); len(ids) != want {
			t.Errorf("it is offered %v", ids)
		}
	}
	look(0)
	renew("second")
	look(1)
	if err := a.UseKeys(t.Context(), core.BucketKeys{ID: "bad"}); !core.IsKind(err, core.Invalid) {
		t.Errorf("refused ones: %v", err)
	}
	if k := a.current().Keys; k.ID != "second" {
		t.Errorf("the next process gets %q", k.ID)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	later := time.AfterFunc(2*lookAgain, func() { renew("third") })
	defer later.Stop()
	if s, err := a.drained(ctx); err != nil || !s.Drained {
		t.Errorf("new keys do not reach a drain that is waited for: %+v, %v", s, err)
	}
}
