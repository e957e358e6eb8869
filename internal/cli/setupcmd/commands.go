// Package setupcmd is the commands about an installation and its files, before any run:
// doctor, init, convert, schema, info, help and version. They start no run.
package setupcmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
