package report

import (
	"testing"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCost of rented machines has the time in which they boot, and the least that EC2 counts.
func TestCost(t *testing.T) {
	granted := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		provider       string
		acquired, held time.Duration
		want           float64
	}{
		"own":           {"ssh", 10 * time.Minute, time.Hour, 6},
		"rented":        {"openstack", 10 * time.Minute, time.Hour, 7},
		"from AWS":      {"aws", 10 * time.Minute, time.Hour, 7},
		"for a moment":  {"aws", time.Second, time.Second, 0.1},
		"never granted": {"aws", time.Hour, 0, 0},
	} {
		at := state.Attempt{Provider: c.provider}
		at.Hosts, at.Granted, at.Phases = []core.Host{{}, {}}, granted, map[core.Phase]time.Duration{core.PhaseAcquire: c.acquired}
		if got := Cost(at, 3, granted.Add(c.held)); got < c.want-1e-9 || got > c.want+1e-9 {
			t.Errorf("%s: it costs %v, expected %v", name, got, c.want)
		}
	}
}
