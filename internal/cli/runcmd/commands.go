// Package runcmd is the commands that start, plan and continue runs: run, plan, check,
// resume, checkpoint, move and vm restore. It must not know how output and records of runs
// are shown.
package runcmd

import (
	"context"

	"github.com/bee-hpc/bee/internal/cli/workspace"
)

// Commands makes the commands run, plan, check and vm restore over one workspace.
type Commands struct {
	*workspace.Workspace
	follow func(ctx context.Context, s *workspace.Session, run string) error
}

// New returns the commands over a workspace. follow shows the output of a run
// that another process controls, until it ends.
func New(w *workspace.Workspace, follow func(ctx context.Context, s *workspace.Session, run string) error) *Commands {
	return &Commands{w, follow}
}

// ResumeCommands makes the commands resume, checkpoint and move over one workspace.
type ResumeCommands struct{ *workspace.Workspace }

// NewResume returns the commands over a workspace.
func NewResume(w *workspace.Workspace) *ResumeCommands { return &ResumeCommands{w} }
