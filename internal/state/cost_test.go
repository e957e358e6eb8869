package state

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// TestCost of rented machines has the time in which they boot, and the least that EC2 counts.
func TestCost(t *testing.T) {
	ec2 := core.Billing{Boot: time.Minute, Least: time.Minute}
	granted := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		billing        core.Billing
		acquired, held time.Duration
		want           float64
	}{
		"own":           {core.Billing{}, 10 * time.Minute, time.Hour, 6},
		"rented":        {core.Billing{Boot: time.Minute}, 10 * time.Minute, time.Hour, 7},
		"from AWS":      {ec2, 10 * time.Minute, time.Hour, 7},
		"for a moment":  {ec2, time.Second, time.Second, 0.1},
		"never granted": {ec2, time.Hour, 0, 0},
	} {
		at := Attempt{Record: Record{Price: &Price{Hour: 3, Billing: c.billing}}}
		at.Hosts, at.Granted, at.Phases = []core.Host{{}, {}}, granted, map[core.Phase]time.Duration{core.PhaseAcquire: c.acquired}
		if got := at.Cost(Price{Hour: 5}, granted.Add(c.held)); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: it costs %v, expected %v", name, got, c.want)
		}
		if at.Price = nil; at.Cost(Price{Hour: 3}, granted.Add(c.held)) != 6*c.held.Hours() {
			t.Errorf("%s: without a price on record, it costs %v", name, at.Cost(Price{Hour: 3}, granted.Add(c.held)))
		}
	}
}

// TestCostOfReservedHosts counts from the start of the reservation, also for hosts that never came.
func TestCostOfReservedHosts(t *testing.T) {
	start := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		hosts   int
		granted time.Time
		ended   time.Time
		want    float64
	}{
		"used":        {2, start.Add(10 * time.Minute), time.Time{}, 6},
		"never there": {0, start.Add(-time.Hour), time.Time{}, 6}, // it was in the queue by then
		"given up":    {0, start.Add(-time.Hour), start.Add(20 * time.Minute), 2},
		"not begun":   {0, start.Add(-time.Hour), start.Add(-time.Minute), 0},
	} {
		at := Attempt{Ended: c.ended, Record: Record{Price: &Price{Hour: 3, Hosts: 2, Billing: core.Billing{Boot: time.Minute}}, Billed: start, Granted: c.granted}}
		at.Hosts, at.Phases = make([]core.Host, c.hosts), map[core.Phase]time.Duration{core.PhaseAcquire: time.Hour}
		if got := at.Cost(Price{}, start.Add(time.Hour)); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: it costs %v, expected %v", name, got, c.want)
		}
	}
}
