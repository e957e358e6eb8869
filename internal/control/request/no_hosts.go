package request

import (
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// NoHosts is the error of a run that has no hosts to look into; its remedy names what to
// look at.
func NoHosts(run state.Run) error {
	e := &core.Error{
		Kind: core.NotFound, Op: "reach run", Object: run.ID, Err: errors.New("it holds no hosts now"),
		Remedy: "`bee show " + run.ID + "` shows what it waits for, `bee logs -f " + run.ID + "` follows it once it runs, and `bee resume --site NAME " + run.ID + "` sends it to another site.",
	}
	switch {
	case run.State.Final():
		e.Err = errors.New("it is over (" + string(run.State) + ")")
		e.Remedy = "`bee logs " + run.ID + "` shows what it has printed, and `bee show " + run.ID + "` how it ended."
	case run.State == state.Suspended:
		e.Err, e.Remedy = errors.New("it is suspended"), "`bee resume "+run.ID+"` continues it from its checkpoint."
	}
	return e
}
