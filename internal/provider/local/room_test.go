package local

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// TestAForecastKnowsRDMA where the job needs it.
func TestAForecastKnowsRDMA(t *testing.T) {
	p := newProvider(t, Settings{Scratch: scratch(t), Ledger: reservation.Ledger(filepath.Join(t.TempDir(), "ledger")), RDMA: func(pci string) error {
		if pci != "" && pci != "0000:81:00.1" {
			t.Errorf("asked for %q", pci)
		}
		return &core.Error{Kind: core.Unsupported, Err: errors.New("it has none"), Remedy: "Choose another site."}
	}})
	for _, needed := range []bool{false, true} {
		r := driver.Request{Owner: core.Owner{User: "u", Run: "r", Attempt: 1}, Nodes: 1, RDMA: needed, PCI: "0000:81:00.1"}
		if _, err := p.Queue().Forecast(t.Context(), r); core.IsKind(err, core.Unsupported) != needed || needed && core.Remedy(err) == "" {
			t.Errorf("needed: %t: %v", needed, err)
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
	if left, err := ledger.Reservations(); err != nil || len(left) != 0 {
		t.Errorf("left in the ledger: %+v, %v", left, err)
	}
	if _, err := p.Acquire(t.Context(), ask("huge", 0, core.HostMemory()*2)); !core.IsKind(err, core.Unsupported) {
		t.Errorf("more memory than there is: %v", err)
	}
	noTrace(t, dir)
}

// TestFirstComeFirstServed: a run that needs much starts before smaller ones that came later,
// which start where there is room besides.
func TestFirstComeFirstServed(t *testing.T) {
	ledger := reservation.Ledger(filepath.Join(t.TempDir(), "ledger"))
	p := newProvider(t, Settings{Scratch: scratch(t), Ledger: ledger, Slots: 4})
	begun := time.Now()
	acquire := func(run string, cores int) (driver.Lease, error) {
		t.Helper()
		after := time.Duration(len(run)) * time.Second // a longer name came later
		return p.Acquire(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: run, Attempt: 1}, Nodes: 1, SlotsPerNode: cores, Submitted: begun.Add(after)})
	}
	must := func(run string, cores int) driver.Lease {
		t.Helper()
		l, err := acquire(run, cores)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	waits := func(run string, cores int, says string) {
		t.Helper()
		if l, err := acquire(run, cores); !core.IsKind(err, core.Busy) || !strings.Contains(err.Error(), says) || core.Remedy(err) == "" {
			t.Fatalf("%s: %v, %v, want busy and %q", run, l, err, says)
		}
	}
	one, two := must("x", 1), must("xx", 1)
	waits("large", 3, "2 of its 4 cores")
	waits("middle1", 1, "run large came first")
	waits("smallest", 1, "runs large, middle1 came first")
	if w, err := p.Queue().Forecast(t.Context(), driver.Request{Owner: core.Owner{User: "u", Run: "plan", Attempt: 1}, Nodes: 1, SlotsPerNode: 1}); err != nil || !strings.Contains(w.Reason, "large") {
		t.Errorf("the plan of a job that would come last: %+v, %v", w, err)
	}
	if err := one.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	waits("smallest", 1, "came first")
	large := must("large", 3)
	if err := errors.Join(two.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	middle := must("middle1", 1)
	waits("smallest", 1, "4 of its 4 cores")
	if err := errors.Join(large.Release(t.Context()), middle.Release(t.Context())); err != nil {
		t.Fatal(err)
	}
	last := must("smallest", 1)
	if before := ledger.Before(reservation.Waiting{}); len(before) != 0 {
		t.Errorf("a run that has started keeps its place: %+v", before)
	}
	r := driver.Request{Owner: core.Owner{User: "u", Run: "several", Attempt: 1}, Nodes: 1, Submitted: begun, KeepPlace: true}
	if w, err := p.Queue().Forecast(t.Context(), r); err != nil || w.Expected.IsZero() {
		t.Errorf("a host with room: %+v, %v", w, err)
	}
	waits("another", 3, "run several came first")
	if err := last.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
}
