package local

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/reservation"
)

// TestAForecastKnowsGPUs, so that no run fails for want of one.
func TestAForecastKnowsGPUs(t *testing.T) {
	p := newProvider(t, Settings{Scratch: scratch(t), Ledger: reservation.Ledger(filepath.Join(t.TempDir(), "ledger")), GPUs: func(number int) error {
		if number > 1 {
			return &core.Error{Kind: core.Unsupported, Err: errors.New("it has 1"), Remedy: "Ask for fewer."}
		}
		return nil
	}})
	for number, fits := range map[int]bool{-1: true, 0: true, 1: true, 2: false} {
		r := driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}, Nodes: 1, GPUs: number}
		if w, err := p.Queue().Forecast(t.Context(), r); (err == nil) != fits || fits == w.Expected.IsZero() || !fits && (!core.IsKind(err, core.Unsupported) || core.Remedy(err) == "") {
			t.Errorf("%d GPUs: %+v, %v", number, w, err)
		}
	}
}

// TestRunsShareAMachine: what does not fit is refused as busy until another run is over.
func TestRunsShareAMachine(t *testing.T) {
	dir, ledger := scratch(t), reservation.Ledger(filepath.Join(t.TempDir(), "ledger"))
	with := func(s Settings) driver.Provider {
		s.Scratch, s.Ledger = dir, ledger
		if s.Slots == 0 {
			s.Slots = 4
		}
		return newProvider(t, s)
	}
	p := with(Settings{})
	ask := func(run string, cores int, memory int64) driver.Request {
		return driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1, SlotsPerNode: cores, Memory: memory}
	}
	acquire := func(p driver.Provider, r driver.Request) driver.Lease {
		t.Helper()
		l, err := p.Acquire(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	refused := func(p driver.Provider, r driver.Request, says string) {
		t.Helper()
		if _, err := p.Acquire(t.Context(), r); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), says) || core.Remedy(err) == "" {
			t.Errorf("%s: %v, want busy and %q", r.Owner.Run, err, says)
		}
		if w, err := p.Queue().Forecast(t.Context(), r); err != nil || !w.Expected.IsZero() || !strings.Contains(w.Reason, says) {
			t.Errorf("the forecast of %s: %+v, %v", r.Owner.Run, w, err)
		}
	}
	first := acquire(p, ask("first", 3, 0))
	second := acquire(p, ask("second", 0, 0)) // says nothing: one core
	refused(p, ask("third", 0, 0), "4 of its 4 cores")
	if again := acquire(p, ask("first", 3, 0)); again.Handle().Owner != first.Handle().Owner {
		t.Error("the lease of a run that has one is refused")
	}
	acquire(with(Settings{Oversubscribe: true}), ask("more", 4, 0)).Release(t.Context())
	other := newProvider(t, Settings{Scratch: scratch(t), Ledger: ledger, Slots: 4})
	acquire(other, ask("elsewhere", 4, 0)).Release(t.Context()) // a site of its own
	if err := errors.Join(second.Release(t.Context()), second.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	third := acquire(p, ask("third", 0, 0))
	refused(with(Settings{Runs: 2, Oversubscribe: true}), ask("fourth", 0, 0), "`runs` allows 2")
	if reuse := first.VolumeReuse(); reuse.LendVolume(t.Context()) != nil {
		t.Error("the hosts are not given back")
	}
	wide := acquire(p, ask("wide", 2, core.HostMemory()/2))
	refused(p, ask("large", 0, core.HostMemory()/4*3), "MiB of memory reserved")
	for _, l := range []driver.Lease{first, third, wide} {
		if err := l.Release(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := ledger.Promises(); err != nil || len(left) != 0 {
		t.Errorf("left in the ledger: %+v, %v", left, err)
	}
	if _, err := p.Acquire(t.Context(), ask("huge", 0, core.HostMemory()*2)); !core.IsKind(err, core.Unsupported) {
		t.Errorf("more memory than there is: %v", err)
	}
	noTrace(t, dir)
}
