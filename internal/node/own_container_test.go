package node

import (
	"context"
	"errors"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/plan"
)

type probed struct {
	driver.Runtime
	facts driver.Facts
	err   error
}

func (p probed) Probe(context.Context) (driver.Facts, error) { return p.facts, p.err }

// TestARuntimeThatStartsNothing is unsupported on its host, whatever words it has for
// that; one that starts other containers has a fault in this one.
func TestARuntimeThatStartsNothing(t *testing.T) {
	plain, busy := errors.New("exit status 125"), &core.Error{Kind: core.Busy, Err: errors.New("busy")}
	nothing := driver.Facts{Reason: "no ids", Remedy: "Ask for ids."}
	for name, c := range map[string]struct {
		plan   plan.Plan
		err    error
		by     probed
		kind   core.Kind
		remedy string
	}{
		"nothing starts":       {err: plain, by: probed{facts: nothing}, kind: core.Unsupported, remedy: "Ask for ids."},
		"others start":         {err: plain, by: probed{facts: driver.Facts{Usable: true}}, kind: core.Permanent},
		"nobody can tell":      {err: plain, by: probed{err: errors.New("no space")}, kind: core.Permanent},
		"it has said why":      {err: busy, by: probed{facts: nothing}, kind: core.Busy},
		"in a virtual machine": {plan: plan.Plan{VM: &plan.VM{}}, err: plain, by: probed{facts: nothing}, kind: core.Permanent},
	} {
		t.Run(name, func(t *testing.T) {
			err := unusable(t.Context(), &c.plan, c.by, c.err)
			if !errors.Is(err, c.err) || core.KindOf(err) != c.kind || core.Remedy(err) != c.remedy {
				t.Errorf("%v: %v: %s", core.KindOf(err), err, core.Remedy(err))
			}
		})
	}
}
