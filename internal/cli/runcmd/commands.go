// Package runcmd is the commands that start, plan and continue runs: run, plan, check,
// resume, checkpoint, move and vm restore. It must not know how output and records of runs
// are shown.
package runcmd

import (
	"context"

	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/state"
)

// Commands makes the commands run, plan, check and vm restore over one workspace.
type Commands struct {
	*workspace.Workspace
	records Records
}

// Records shows what is on record of runs, and ends them as other commands do.
type Records struct {
	// Follow shows the output of a run that another process controls, until it ends.
	Follow func(ctx context.Context, s *workspace.Session, run string) error
	// FollowSeveral shows the output of new runs that other processes control until they end, each
	// line with the name of its run. The context that until has of a run ends this for that one.
	// quiet: and nothing else.
	FollowSeveral func(ctx context.Context, w *workspace.Workspace, runs []string, until func(run string) context.Context, quiet bool) error
	// Stop has runs and arrays end that are not over, and does not wait for it.
	Stop func(ctx context.Context, s *workspace.Session, words []string) error
	// Results writes what became of runs. With old, none was run, as nothing has changed since.
	Results func(ctx context.Context, s *workspace.Session, files workspace.ResultFiles, runs []state.Run, old bool) error
}

// New returns the commands over a workspace.
func New(w *workspace.Workspace, records Records) *Commands { return &Commands{w, records} }

// ResumeCommands makes the commands resume, checkpoint and move over one workspace.
type ResumeCommands struct{ *workspace.Workspace }

// NewResume returns the commands over a workspace.
func NewResume(w *workspace.Workspace) *ResumeCommands { return &ResumeCommands{w} }
