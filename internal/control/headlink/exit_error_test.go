package headlink

import (
	"errors"
	"strings"
	"testing"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
)

// TestExitError names what may be why a command has failed, and nothing that cannot be.
func TestExitError(t *testing.T) {
	alone := spec.Job{Nodes: 1}
	two := spec.Job{Nodes: 2}
	guests := spec.Job{Nodes: 1, VM: &spec.VM{}}
	virtiofs := spec.Job{Nodes: 1, VM: &spec.VM{Share: protocol.ShareVirtiofs}}
	for name, c := range map[string]struct {
		job    spec.Job
		guest  string
		code   int
		nodes  []core.NodeReport
		shared bool
		setup  bool
		text   []string // parts of the message
		remedy []string // parts of it
		not    string   // in neither
	}{
		"a code":                      {job: alone, code: 3, text: []string{"`run` command", "exit code 3"}, not: "signal"},
		"a signal":                    {job: alone, code: 139, text: []string{"exit code 139, as after signal 11 (SIGSEGV"}, not: "memory"},
		"a code beyond signals":       {job: alone, code: 255, text: []string{"exit code 255"}, not: "signal"},
		"KILL, nothing counted":       {job: alone, code: 137, text: []string{"SIGKILL"}, remedy: []string{"no process killed for want of memory"}},
		"memory":                      {job: alone, code: 137, nodes: []core.NodeReport{{Host: "h1", MemoryKills: 2}, {Host: "h2"}}, text: []string{"for want of memory: 2 on h1"}, remedy: []string{"`ranks_per_node`"}, not: "h2"},
		"memory, of anybody's":        {job: alone, code: 1, nodes: []core.NodeReport{{Host: "h1", HostMemoryKills: 1}}, text: []string{"the job's or others': 1 on h1"}},
		"the job's own counts alone":  {job: alone, code: 1, nodes: []core.NodeReport{{Host: "h1", HostMemoryKills: 1}, {Host: "h2", MemoryKills: 1}}, text: []string{"1 on h2"}, not: "h1"},
		"hosts that share nothing":    {job: two, code: 1, remedy: []string{"`volume: {shared: required}`"}},
		"hosts that share":            {job: two, code: 1, shared: true, not: "shared: required"},
		"one host":                    {job: alone, code: 1, not: "shared: required"},
		"its setup, on one node":      {job: two, code: 1, setup: true, not: "shared: required"},
		"guests, by 9p":               {job: guests, guest: "g", code: 1, remedy: []string{"9p", "share: virtiofs"}},
		"guests, by virtiofs":         {job: virtiofs, guest: "g", code: 1, not: "9p"},
		"guests that were not needed": {job: guests, code: 1, not: "9p"},
	} {
		t.Run(name, func(t *testing.T) {
			err := ExitError(&c.job, c.guest, "run", &protocol.Result{Exit: &core.Exit{Code: c.code}, Nodes: c.nodes, SharedVolume: c.shared, InSetup: c.setup})
			if core.KindOf(err) != core.Permanent {
				t.Errorf("it is of kind %v", core.KindOf(err))
			}
			for _, part := range c.text {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
			for _, part := range c.remedy {
				if !strings.Contains(core.Remedy(err), part) {
					t.Errorf("the remedy %q lacks %q", core.Remedy(err), part)
				}
			}
			if c.not != "" && strings.Contains(err.Error()+core.Remedy(err), c.not) {
				t.Errorf("%q, %q has %q", err, core.Remedy(err), c.not)
			}
		})
	}
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
