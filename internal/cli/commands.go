package cli

import "github.com/bee-hpc/bee/internal/cli/workspace"

// runCommands makes the commands run, plan and check over one workspace.
type runCommands struct{ *workspace.Workspace }

func newRunCommands(w *workspace.Workspace) *runCommands { return &runCommands{w} }

// resumeCommands makes the commands resume, checkpoint and move over one workspace.
type resumeCommands struct{ *workspace.Workspace }

func newResumeCommands(w *workspace.Workspace) *resumeCommands { return &resumeCommands{w} }

// stopCommands makes the commands stop, rm, sweep, supervise and drive over one workspace.
type stopCommands struct{ *workspace.Workspace }

func newStopCommands(w *workspace.Workspace) *stopCommands { return &stopCommands{w} }

// vmCommands makes the commands of vm over one workspace.
type vmCommands struct{ *workspace.Workspace }

func newVMCommands(w *workspace.Workspace) *vmCommands { return &vmCommands{w} }
