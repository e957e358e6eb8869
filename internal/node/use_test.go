package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/node/container"
)

// usedBox is a container that uses what it is given.
type usedBox struct {
	driver.Container
	sample atomic.Pointer[core.Sample] // nil: it does not answer
	exit   core.Exit
}

func (b *usedBox) Use(context.Context) (core.Sample, error) {
	if s := b.sample.Load(); s != nil {
		return *s, nil
	}
	return core.Sample{}, errors.New("it does not answer")
}

func (b *usedBox) Wait(context.Context) (core.Exit, error) { return b.exit, nil }

// usedFor sets the time of the call before, and returns what was used since then.
func usedFor(t *testing.T, u *useMeter, seconds float64) core.Use {
	t.Helper()
	u.at = time.Now().Add(-time.Duration(seconds * float64(time.Second)))
	use, err := u.Use(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return use
}

// about compares averages, which are over a little more time than was set.
func about(t *testing.T, got core.Use, want ...float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %v, expected %v", got, want)
	}
	for i := range want {
		if got[i] > want[i] || got[i] < want[i]*0.5 {
			t.Errorf("number %d of %v, expected %v", i+1, got, want)
		}
	}
}

// TestUseOfANode: of its container, and of cases of a pack, also of those that have ended.
func TestUseOfANode(t *testing.T) {
	current := container.NewCurrent("here")
	u := newUseMeter(current)
	if _, err := u.Use(t.Context()); !core.IsKind(err, core.Transient) {
		t.Errorf("before anything runs: %v", err)
	}
	job, first, second := &usedBox{}, &usedBox{exit: core.Exit{UserTime: 20 * time.Second}}, &usedBox{}
	boxes := map[*usedBox]*container.Container{job: {Container: job}, first: {Container: first}, second: {Container: second}}
	current.Set(boxes[job])
	u.begin(nil)
	if _, err := u.Use(t.Context()); err == nil {
		t.Error("a container that does not answer uses something")
	}
	job.sample.Store(&core.Sample{CPUSeconds: 20, MemoryBytes: 100, ReadBytes: 1000, WriteBytes: 2000})
	about(t, usedFor(t, u, 10), 2, 100, 100, 200)
	if _, err := u.Use(t.Context()); !core.IsKind(err, core.Transient) {
		t.Errorf("just after: %v", err)
	}
	u.add(boxes[first])
	u.add(boxes[second])
	first.sample.Store(&core.Sample{CPUSeconds: 10, MemoryBytes: 50, ReadBytes: 100})
	second.sample.Store(&core.Sample{CPUSeconds: 10, MemoryBytes: 7})
	about(t, usedFor(t, u, 10), 2, 157, 10, 0)
	u.remove(boxes[first]) // it has computed for 10 s more
	second.sample.Store(nil)
	about(t, usedFor(t, u, 10), 1, 107, 0, 0)
	u.remove(boxes[second])
	u.watch = func() gpuUse { return func() (float64, float64, bool) { return 1.5, 99, true } }
	about(t, usedFor(t, u, 10), 0, 100, 0, 0, 1.5, 99)
	if len(u.last) != 1 || len(u.cases) != 0 {
		t.Errorf("of %d containers something is remembered", len(u.last))
	}
	job.sample.Store(&core.Sample{CPUSeconds: 5}) // less than before, as of a process that nobody waited for
	about(t, usedFor(t, u, 10), 0, 0, 0, 0, 1.5, 99)
}
