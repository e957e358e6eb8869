package workspace

import (
	"testing"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// TestCodeOf: only a run that succeeded has exit code 0.
func TestCodeOf(t *testing.T) {
	zero, three := 0, 3
	for name, c := range map[string]struct {
		run  state.Run
		want int
	}{
		"succeeded":                 {state.Run{State: state.Succeeded, ExitCode: &zero}, 0},
		"succeeded without a code":  {state.Run{State: state.Succeeded}, 0},
		"command failed":            {state.Run{State: state.Failed, ExitCode: &three, Kind: core.Permanent.String()}, 3},
		"no command began":          {state.Run{State: state.Failed, Kind: core.Invalid.String()}, console.ExitInvalid},
		"an output is absent":       {state.Run{State: state.Failed, ExitCode: &zero, Kind: core.NotFound.String()}, console.ExitNotFound},
		"stopped":                   {state.Run{State: state.Stopped, Kind: core.Stopped.String()}, console.ExitStopped},
		"stopped after its command": {state.Run{State: state.Stopped, ExitCode: &zero, Kind: core.Stopped.String()}, console.ExitStopped},
		"stopped without a kind":    {state.Run{State: state.Stopped, ExitCode: &zero}, console.ExitStopped},
		"command ended by a stop":   {state.Run{State: state.Stopped, ExitCode: &three, Kind: core.Stopped.String()}, 3},
		"set aside":                 {state.Run{State: state.SetAside, ExitCode: &zero, Kind: core.Permanent.String()}, console.ExitPermanent},
		"suspended":                 {state.Run{State: state.Suspended, ExitCode: &zero, Kind: core.Unsupported.String()}, console.ExitUnsupported},
	} {
		if got := CodeOf(c.run); got != c.want {
			t.Errorf("%s: code %d, expected %d", name, got, c.want)
		}
	}
}
