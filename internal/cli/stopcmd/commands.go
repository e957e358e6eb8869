// Package stopcmd is the commands that end runs and remove what is left of them: stop, rm
// and sweep, and those whose process carries runs in the background: supervise and the
// hidden drive. It must not know how records of runs are shown.
package stopcmd

import (
	"io"

	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
)

// Commands makes the commands stop, rm, sweep, supervise and drive over one workspace.
type Commands struct {
	*workspace.Workspace
	text runText
}

// runText writes a run as `bee show` prints it.
type runText func(w io.Writer, v runview.View) error

// New returns the commands over a workspace. text writes a run as `bee show`
// prints it, for notifications.
func New(w *workspace.Workspace, text func(w io.Writer, v runview.View) error) *Commands {
	return &Commands{w, text}
}
