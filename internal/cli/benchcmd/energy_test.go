package benchcmd

import (
	"testing"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/core"
)

// TestEnergyOfHosts: each machine counts once, and one host that knows nothing leaves all unknown.
func TestEnergyOfHosts(t *testing.T) {
	node := func(joules float64, boot, unknown string) runview.Node {
		return runview.Node{Host: "n" + boot, Energy: core.Energy{Joules: joules, Boot: boot, Unknown: unknown, Remedy: "Buy one."}}
	}
	for name, c := range map[string]struct {
		attempts [][]runview.Node
		joules   float64
		reasons  int
	}{
		"two machines":             {[][]runview.Node{{node(3, "a", ""), node(4, "b", "")}}, 7, 0},
		"two hosts of one machine": {[][]runview.Node{{node(3, "a", ""), node(4, "a", "")}}, 4, 0},
		"two attempts":             {[][]runview.Node{{node(3, "a", "")}, {node(4, "a", "")}}, 7, 0},
		"one has no counters":      {[][]runview.Node{{node(3, "a", ""), node(0, "b", "there are none")}}, 0, 1},
		"one of another version":   {[][]runview.Node{{node(3, "a", ""), node(0, "b", "")}}, 0, 1},
		"no host":                  {nil, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var attempts []runview.Attempt
			for _, nodes := range c.attempts {
				attempts = append(attempts, runview.Attempt{Nodes: nodes})
			}
			if joules, reasons := energyOf(attempts); joules != c.joules || len(reasons) != c.reasons {
				t.Errorf("%v J, %q; expected %v and %d reasons", joules, reasons, c.joules, c.reasons)
			}
		})
	}
}
