// Package nodecmd is the commands that reach the nodes of a run: exec, cp, forward, ssh,
// fabric and emulate. They change no record.
package nodecmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
