package runner

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/core"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/state"
)

// LaunchedBy returns the last of some attempts that is not closed and that another bee has
// launched. is reports whether there is one.
func (c *Runner) LaunchedBy(attempts []state.Attempt) (last state.Attempt, is bool) {
	for _, rec := range attempts {
		if !rec.Released() && rec.Binary != "" && rec.Binary != c.Digest {
			last, is = rec, true
		}
	}
	return last, is
}

// understands returns an error where another bee has launched an attempt whose nodes speak
// another version of the protocol: this one would take what they say for something else. A
// run that its user ends, and one that is over, only has its hosts released.
func (c *Runner) understands(run state.Run, attempts []state.Attempt) error {
	rec, is := c.LaunchedBy(attempts)
	if !is || run.StopAsked || run.State.Final() || c.Speaks(rec) {
		return nil
	}
	return &core.Error{
		Kind: core.Unsupported, Op: "continue run", Object: run.ID,
		Err:    fmt.Errorf("attempt %d was launched by another bee (SHA-256 %s), which speaks version %d of the protocol of nodes; this bee speaks %d", rec.N, rec.Binary, rec.Protocol, protocol.Version),
		Remedy: fmt.Sprintf("Store that version of bee at %s, and run `bee supervise`. `bee stop %s` ends the run without it.", c.Store.Binaries().Path(rec.Binary), run.ID),
	}
}

// Speaks reports whether this bee speaks with the nodes of an attempt.
func (*Runner) Speaks(rec state.Attempt) bool {
	return rec.Protocol == 0 || rec.Protocol == protocol.Version
}
