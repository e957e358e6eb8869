// Package volumecmd is bee volume, bee data and bee burst: the commands for buffered
// volumes, for data images, and for predictions of burst buffers.
package volumecmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
