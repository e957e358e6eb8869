// Package benchcmd is bee bench: it plans studies, measures them by ordinary runs and
// prints what they found. How a study is measured and judged is in internal/bench.
package benchcmd

import "github.com/bee-hpc/bee/internal/cli/workspace"

// Commands makes the commands of this room over one workspace.
type Commands struct{ *workspace.Workspace }

// New returns the commands over a workspace.
func New(w *workspace.Workspace) *Commands { return &Commands{w} }
