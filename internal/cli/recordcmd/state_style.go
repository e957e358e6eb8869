package recordcmd

import (
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/state"
)

// stateCell is the state of a run in a table.
func stateCell(s state.RunState) output.Cell {
	style := output.Plain
	switch s {
	case state.Succeeded:
		style = output.Good
	case state.Running:
		style = output.Busy
	case state.Queued, state.Suspended:
		style = output.Wait
	case state.Failed, state.SetAside:
		style = output.Bad
	}
	return output.Cell{Text: s, Style: style}
}
