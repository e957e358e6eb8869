package workspace

import (
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// CodeOf is the exit code for a run: that of its command, if the command failed. A run that
// did not succeed never has code 0, even if its command ended with 0 before.
func CodeOf(run state.Run) int {
	switch {
	case run.State == state.Succeeded:
		return 0
	case run.ExitCode != nil && *run.ExitCode != 0:
		return *run.ExitCode
	case run.State == state.Stopped:
		return console.ExitStopped
	}
	return console.CodeOfKind(core.KindNamed(run.Kind))
}
