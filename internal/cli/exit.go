package cli

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
)

// Exit codes of bee itself. A task that ran to its end gives its own code,
// whatever it is; these stand for everything else, and lie where programs
// seldom have theirs. docs/reference/exit-codes.md lists them for users.
const (
	exitPermanent   = 200
	exitInvalid     = 201
	exitNotFound    = 202
	exitBusy        = 203
	exitUnsupported = 204
	exitTransient   = 205
	exitLost        = 206
	exitStopped     = 207
	exitSlower      = 208 // bee bench: slower than the gate allows
	exitUndecided   = 209 // bee bench: the gate is undecided
)

// exitError ends the program with a code and no message: all has been printed.
type exitError struct{ code int }

func (e exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

func codeOf(err error) int { return codeOfKind(core.KindOf(err)) }

func codeOfKind(k core.Kind) int {
	switch k {
	case core.Invalid:
		return exitInvalid
	case core.NotFound:
		return exitNotFound
	case core.Busy:
		return exitBusy
	case core.Unsupported:
		return exitUnsupported
	case core.Transient:
		return exitTransient
	case core.Lost:
		return exitLost
	case core.Stopped:
		return exitStopped
	}
	return exitPermanent
}
