package runcmd

import (
	"errors"
	"os"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/input"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/spf13/pflag"
)

// interactive is how much of this process's terminal the job's command gets.
type interactive struct{ input, terminal bool }

func (i *interactive) flags(f *pflag.FlagSet) {
	f.BoolVarP(&i.input, "interactive", "i", false, "pass standard input to the job's command, on the first node")
	f.BoolVarP(&i.terminal, "tty", "t", false, "give the job's command this terminal, as for a shell; -t passes input as well")
}

func (i interactive) any() bool { return i.input || i.terminal }

// change has a submission take input, unless its run would lose it: it comes once, from
// this process.
func (i interactive) change(sub *submission.Submission, from jobSource, detached bool) error {
	if !i.any() {
		return nil
	}
	refuse := func(why, remedy string) error {
		return &core.Error{Kind: core.Invalid, Op: "pass input to", Object: sub.Job.Name, Err: errors.New(why), Remedy: remedy}
	}
	switch {
	case detached:
		return refuse("a run in the background has no terminal and no standard input", "Leave out -d, or start it without -i and -t and open a shell in it: `bee exec -it "+sub.Job.Name+" sh`.")
	case from.input:
		return refuse("standard input has the Beefile", "Name the Beefile's file.")
	case sub.Job.Checkpoint != nil:
		return refuse("it continues from checkpoints in other attempts, which would not get the input again", "Leave out -i and -t, or `checkpoint:` in the Beefile.")
	case sub.Job.Restarts:
		return refuse("it begins again when its hosts were lost, and would not get the input again", "Leave out -i and -t, or `restarts:` in the Beefile.")
	case sub.Job.Retry > 0:
		return refuse("it is tried again, and would not get the input again", "Leave out -i and -t, or `retry:` in the Beefile.")
	}
	sub.Input = true
	if !i.terminal {
		return nil
	}
	if err := console.CheckTerminal(); err != nil {
		return err
	}
	size := console.TerminalSize()
	sub.Terminal = &plan.Terminal{Type: os.Getenv("TERM"), Rows: size[0], Cols: size[1]}
	return nil
}

// pass has the controller pass this process's input on, until done is called.
func (i interactive) pass(s *workspace.Session, ui *console.Progress) (done func()) {
	if !i.any() {
		return func() {}
	}
	ui.Lent = true
	s.Input = input.New(os.Stdin)
	if !i.terminal {
		return func() {}
	}
	changed, stop := console.Resizes()
	s.Input.Size, s.Input.Resized, s.Input.Attached = console.TerminalSize, changed, ui.Attach
	return stop
}
