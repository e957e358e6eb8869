package head

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"golang.org/x/sys/unix"
)

// evidence is the state of the files that `checkpoint.paths` names, at one moment.
type evidence struct {
	found  bool
	looks  []snapshot.Look // by rank, of volumes on the hosts
	newest time.Time       // of a data image
}

// same reports whether no file of a checkpoint was written, added or removed since.
func (e evidence) same(since evidence) bool {
	return e.newest.Equal(since.newest) && slices.EqualFunc(e.looks, since.looks, func(a, b snapshot.Look) bool {
		return a.Files == b.Files && a.Digest == b.Digest
	})
}

// observe collects the evidence, or nothing where the Beefile names no paths.
func (s *saver) observe(ctx context.Context) (e evidence, err error) {
	if len(s.plan.Checkpoint.Paths) == 0 {
		return e, nil
	}
	if s.plan.UsesDataImage() {
		e.newest, e.found, err = s.image.newestNow(ctx)
		return e, err
	}
	e.looks, err = s.volumes.look(ctx, checkpointGlobs(s.plan))
	e.found = slices.ContainsFunc(e.looks, func(l snapshot.Look) bool { return l.Files > 0 })
	return e, err
}

// answerOf judges how a job that was asked to write its checkpoint has ended. A job that
// died of the signal itself wrote one only if the files of a checkpoint changed: before
// it was asked they were as before says.
func (s *saver) answerOf(ctx context.Context, exit core.Exit, before evidence) core.Answer {
	c := s.plan.Checkpoint
	signal := c.Signal
	if len(c.Command) > 0 {
		signal = int(stopSignal(s.plan.Image.Config))
	}
	switch {
	case s.wrote || c.File != "" || exit.Code != 128+signal:
		return core.AnswerWrote
	case len(c.Paths) == 0:
		return core.AnswerDied
	}
	now, err := s.observe(ctx)
	switch {
	case err != nil:
		return core.AnswerDied
	case !now.found:
		return core.AnswerNothing
	case now.same(before):
		return core.AnswerDied
	}
	return core.AnswerWrote
}

// unwritten is the error of an attempt whose job died of the signal that asked for a
// checkpoint, and left none.
func (s *saver) unwritten(cause error) error {
	signal := unix.SignalName(syscall.Signal(s.plan.Checkpoint.Signal))
	return &core.Error{
		Kind: core.KindOf(cause), Err: fmt.Errorf("%w: the job died of %s, by which it was asked to write its checkpoint, and nothing is there of `checkpoint.paths`", cause, signal),
		Remedy: "Have the job catch the signal and write its checkpoint, or correct `checkpoint.paths`: docs/how-to/checkpoints.md has recipes.",
	}
}
