// Package imagecmd is bee image: the commands for the image cache, which those for guest
// images share.
package imagecmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
