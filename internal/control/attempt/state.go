package attempt

import "github.com/bee-hpc/bee/internal/state"

// State is the state of an attempt.
type State = state.AttemptState

// Computes is whether the user's command may run in a state.
type Computes int

// The answers, weakest first.
const (
	No Computes = iota
	Perhaps
	Yes
)

func (c Computes) String() string { return [...]string{"no", "perhaps", "yes"}[c] }

// MayCompute reports whether the user's command may run on the attempt's site. A next
// attempt waits for that, unless the time limit is over or the site is declared lost.
func MayCompute(s State, autostart state.Autostart, result state.Result) Computes {
	switch s {
	case state.Acquiring, state.Staging, state.Lending, state.Closed:
		return No
	case state.Starting, state.Computing, state.Checkpointing:
		return Yes
	case state.InQueue, state.Cancelling:
	default: // it has ended, and the result says how
		if result != state.NoResult {
			if result.Reported() {
				return No
			}
			return Perhaps
		}
	}
	if autostart.MayStart() {
		return Perhaps
	}
	return No
}

// computesText is MayCompute of a state in general, for the printed table.
func computesText(s State) string {
	switch s {
	case state.InQueue:
		return "from `enabling`: perhaps"
	case state.Ended, state.Keeping, state.Collecting, state.Releasing:
		return "by the result"
	case state.Cancelling:
		return Perhaps.String()
	}
	return MayCompute(s, state.NoAutostart, state.NoResult).String()
}
