package control

import (
	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
)

// measure notes how long a checkpoint took whose head has ended: from asking for
// it, by the head's clock.
func (a *attempt) measure(r *protocol.Result) {
	if !r.Continue {
		return
	}
	a.rec.Saving = r.Phases[core.PhaseCheckpoint]
	if took := r.Ended.Sub(a.rec.CheckpointAsked); !a.rec.CheckpointAsked.IsZero() && took > a.rec.Saving {
		a.rec.Saving = took
	}
}
