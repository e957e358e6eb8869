// Package recordcmd is the commands that read the records of runs: ps, show, report, web, logs,
// events, stats, metrics and wait. They change nothing; actions of pages are calls of other commands.
package recordcmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
