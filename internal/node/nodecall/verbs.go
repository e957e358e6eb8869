package nodecall

import (
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/rpc"
)

// CallVerbs asks for what bee_0 has done in the containers whose broker this node runs.
var CallVerbs = rpc.Method[rpc.None, Verbs]{Name: "verbs", By: rpc.Controller, Reply: rpc.LargeSize}

// Verbs is what bee_0 has done in the containers of one machine.
type Verbs struct {
	Ports []core.VerbsPort `json:"ports"`
}

// Check implements the check of package rpc: each container once, and no number that
// cannot be.
func (v Verbs) Check() error {
	seen := map[int]bool{}
	for _, p := range v.Ports {
		if p.Rank < 0 || p.Rank > MaxRank || seen[p.Rank] {
			return invalid("node of a verbs device", p.Rank)
		}
		seen[p.Rank] = true
		if err := p.Check(); err != nil {
			return err
		}
	}
	return nil
}
