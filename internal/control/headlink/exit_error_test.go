package headlink

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/testkit"
)

// TestExitError names what may be why a command has failed, and nothing that cannot be.
func TestExitError(t *testing.T) {
	alone := spec.Job{Nodes: 1}
	two := spec.Job{Nodes: 2}
	guests := spec.Job{Nodes: 1, VM: &spec.VM{}}
	virtiofs := spec.Job{Nodes: 1, VM: &spec.VM{Share: protocol.ShareVirtiofs}}
	cases := map[string]struct {
		job    spec.Job
		guest  string
		code   int
		nodes  []core.NodeReport
		shared bool
		setup  bool
	}{
		"a code":                      {job: alone, code: 3},
		"a signal":                    {job: alone, code: 139},
		"a code beyond signals":       {job: alone, code: 255},
		"KILL, nothing counted":       {job: alone, code: 137},
		"memory":                      {job: alone, code: 137, nodes: []core.NodeReport{{Host: "h1", MemoryKills: 2}, {Host: "h2"}}},
		"memory, of anybody's":        {job: alone, code: 1, nodes: []core.NodeReport{{Host: "h1", HostMemoryKills: 1}}},
		"the job's own counts alone":  {job: alone, code: 1, nodes: []core.NodeReport{{Host: "h1", HostMemoryKills: 1}, {Host: "h2", MemoryKills: 1}}},
		"hosts that share nothing":    {job: two, code: 1},
		"hosts that share":            {job: two, code: 1, shared: true},
		"one host":                    {job: alone, code: 1},
		"its setup, on one node":      {job: two, code: 1, setup: true},
		"guests, by 9p":               {job: guests, guest: "g", code: 1},
		"guests, by virtiofs":         {job: virtiofs, guest: "g", code: 1},
		"guests that were not needed": {job: guests, code: 1},
	}
	var all testkit.ErrorList
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		err := ExitError(&c.job, c.guest, "run", &protocol.Result{Exit: &core.Exit{Code: c.code}, Nodes: c.nodes, SharedVolume: c.shared, InSetup: c.setup})
		if core.KindOf(err) != core.Permanent {
			t.Errorf("%s: of kind %v", name, core.KindOf(err))
		}
		all.Add(name, err)
	}
	all.Compare(t, "exit-error")
}

// TestHintShared leaves what is no failure of the job as it is.
func TestHintShared(t *testing.T) {
	job := spec.Job{Nodes: 2}
	lost := &core.Error{Kind: core.Lost, Err: errors.New("gone")}
	plain := errors.New("plain")
	for _, err := range []error{lost, plain} {
		if got := HintShared(&job, &protocol.Result{}, err); !errors.Is(got, err) || core.Remedy(got) != "" {
			t.Errorf("%v became %v, %q", err, got, core.Remedy(got))
		}
	}
	job.Volume.Shared = spec.SharedAny
	if got := HintShared(&job, &protocol.Result{}, &core.Error{Err: plain}); core.Remedy(got) != "" {
		t.Errorf("where the job does not mind: %q", core.Remedy(got))
	}
}
