package emulate

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestLine has a far host: each way takes its delay, and all bytes arrive at the rate of the line.
func TestLine(t *testing.T) {
	testkit.AsRootToo(t)
	s := spec(t, 3)
	const delay, rate = 50 * time.Millisecond, 16_000_000
	s.Hosts[0].Line = &Line{Rate: rate, Delay: delay}
	s.Hosts[2].Line = &Line{Loss: 1}
	c := start(t, s)
	addr := serveOn(t, c, 0)
	took := func(n int64) time.Duration {
		t.Helper()
		begun := time.Now()
		must(t, pushFrom(t, c, 1, addr, n))
		return time.Since(begun)
	}
	if got := took(1); got < 4*delay { // to connect, and to be answered
		t.Errorf("two round trips took %s", got)
	}
	const bytes = 2 << 20 // more than the line and its queue hold
	if got, least := took(bytes), bytes*8*time.Second/rate; got < least || got > time.Minute {
		t.Errorf("%d bytes took %s, at this rate %s", bytes, got, least)
	}
	if err := pushFrom(t, c, 1, c.Hosts()[2].Addr+":7000", 1); err == nil {
		t.Error("all frames are lost, and some have arrived")
	}
	must(t, c.Link(t.Context(), 0, false))
	if err := pushFrom(t, c, 1, addr, 1); err == nil {
		t.Error("a cut line carries frames")
	}
	bad := spec(t, 1)
	bad.Hosts[0].Line = &Line{Loss: 2}
	if _, err := Start(t.Context(), bad); !core.IsKind(err, core.Invalid) {
		t.Errorf("a line that loses more than all: %v", err)
	}
}

func TestPacer(t *testing.T) {
	now := time.Now()
	p := pacer{Line: Line{Rate: 8_000_000, Delay: time.Second}} // 1 MB/s
	for i, want := range []time.Duration{10, 20, 30} {
		if due, ok := p.due(now, 10_000); !ok || due.Sub(now) != time.Second+want*time.Millisecond {
			t.Errorf("frame %d arrives after %s, %v", i, due.Sub(now), ok)
		}
	}
	if _, ok := p.due(now, 80_000); ok {
		t.Error("the queue has no end")
	}
	later := now.Add(time.Minute)
	if due, ok := p.due(later, 1_000); !ok || due.Sub(later) != time.Second+time.Millisecond {
		t.Errorf("after a pause: %s, %v", due.Sub(later), ok)
	}
}
