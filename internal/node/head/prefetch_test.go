package head

import (
	"context"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/plan"
)

// slowBurst is a burst buffer whose remote is slow.
type slowBurst struct {
	Burst
	begun chan []string // what is fetched
}

func (b slowBurst) Prefetch(ctx context.Context, globs []string) (BurstPrefetched, error) {
	b.begun <- globs
	<-ctx.Done()
	return BurstPrefetched{}, ctx.Err()
}

// TestPrefetch runs beside the job, which does not wait for it, and ends before the volume is unmounted.
func TestPrefetch(t *testing.T) {
	p := &plan.Plan{Volume: "/data", Burst: &plan.Burst{Prefetch: []string{"/data/in/*.nc", "/data/grid", "/other/x"}}}
	h, err := New(partsOf(t, plan.Config{Size: 1, Host: core.Host{Name: "h0", Dir: t.TempDir()}, Plan: p}))
	if err != nil {
		t.Fatal(err)
	}
	b := slowBurst{begun: make(chan []string, 1)}
	h.burst.prefetch(b)
	if got := <-b.begun; !slices.Equal(got, []string{"in/*.nc", "grid"}) {
		t.Errorf("fetched: %q", got)
	}
	h.burst.endPrefetch()
	p.Burst.Prefetch = nil
	h.burst.prefetch(b)
	h.burst.endPrefetch()
	if len(b.begun) > 0 {
		t.Errorf("fetched without a pattern: %q", <-b.begun)
	}
}
