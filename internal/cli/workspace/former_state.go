package workspace

import (
	"errors"
	"os"
	"strings"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/pflag"
)

// formerState is --state as what --state-dir was called, for scripts: its value is a path.
// `bee ps` has a flag of that name of its own.
type formerState struct{ *Workspace }

// FormerStateFlag defines it.
func (a *Workspace) FormerStateFlag(flags *pflag.FlagSet) {
	flags.Var(formerState{a}, "state", "former name of --state-dir")
	flags.MarkHidden("state")
}

// Set implements pflag.Value. What is no path is an error of Paths: that has a remedy.
func (f formerState) Set(value string) error {
	if IsStateDir(value) {
		f.StateDir = value
	} else {
		f.noPath = value
	}
	return nil
}

func (f formerState) String() string { return "" }

// Type implements pflag.Value.
func (f formerState) Type() string { return "directory" }

// IsStateDir reports whether a value of --state is a path: it has a slash, or is a directory.
func IsStateDir(value string) bool {
	if strings.Contains(value, "/") {
		return true
	}
	info, err := os.Stat(value)
	return err == nil && info.IsDir()
}

// checkFormerState refuses a value of --state that is no path.
func (a *Workspace) checkFormerState() error {
	if a.noPath == "" {
		return nil
	}
	return &core.Error{
		Kind: core.Invalid, Op: "read", Object: "--state " + a.noPath, Err: errors.New("it is no path"),
		Remedy: "`bee ps --state` lists runs by their state; --state-dir ./" + a.noPath + " is the directory of run records.",
	}
}
