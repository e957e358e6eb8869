package console

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// Exit codes of bee itself. A task that ran to its end gives its own code,
// whatever it is; these stand for everything else, and lie where programs
// seldom have theirs. docs/reference/exit-codes.md lists them for users.
const (
	ExitPermanent   = 200
	ExitInvalid     = 201
	ExitNotFound    = 202
	ExitBusy        = 203
	ExitUnsupported = 204
	exitTransient   = 205
	exitLost        = 206
	ExitStopped     = 207
	ExitSlower      = 208 // bee bench: slower than the gate allows
	ExitUndecided   = 209 // bee bench: the gate is undecided
)

// Exit ends the program with a code and no message: all has been printed.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit %d", int(e)) }

// CodeOf returns the exit code for an error.
func CodeOf(err error) int { return CodeOfKind(core.KindOf(err)) }

// CodeOfKind returns the exit code for errors of a kind.
func CodeOfKind(k core.Kind) int {
	switch k {
	case core.Invalid:
		return ExitInvalid
	case core.NotFound:
		return ExitNotFound
	case core.Busy:
		return ExitBusy
	case core.Unsupported:
		return ExitUnsupported
	case core.Transient:
		return exitTransient
	case core.Lost:
		return exitLost
	case core.Stopped:
		return ExitStopped
	}
	return ExitPermanent
}
