package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/node/snapshot"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// savingFor reports why the job shall write its checkpoint when its attempt ends for a
// cause; false: it shall not. Before its command runs there is nothing to save:
// what a half-done setup leaves is no state from which a run could continue.
func (h *head) savingFor(cause error) (string, bool) {
	if h.plan.Checkpoint == nil || h.n.health().Phase != core.PhaseRun {
		return "", false
	}
	switch {
	case errors.Is(cause, errSlotEnds):
		return "the time slot ends soon", true
	case errors.Is(cause, errTakenBack):
		return "the site takes its hosts back", true
	}
	return "", false
}

// saveAndEnd has the job write its checkpoint and end, and kills it when the
// grace is over. Exit code 0 means nothing here: many programs end with it when
// they were asked to stop, and one that was done just then is soon done again.
func (h *head) saveAndEnd(ctx context.Context, p driver.Process, why string, grace time.Duration) {
	defer h.beginSave()()
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := h.askToSave(ctx, p, why, true); err != nil {
		h.journal.say(core.PhaseCheckpoint, "warning: the job could not be asked to write its checkpoint: "+err.Error())
	}
	exit, err := p.Wait(ctx)
	if err == nil {
		h.hasAnswered(ctx, exit)
		return
	}
	p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // it may have ended just now
	h.forgetStopFile()
	h.saved = h.wrote
}

// checkpointAsked has the job do so as its user wants it. One that is too slow is not
// killed, for then all since its last checkpoint would be lost: whenever it ends after
// it was asked, and with whatever exit code, it has answered. ended reports whether it has,
// or the attempt shall end.
func (h *head) checkpointAsked(ctx context.Context, p driver.Process) (exit core.Exit, ended bool, err error) {
	grace := h.plan.Checkpoint.Grace
	done := h.beginSave()
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := h.askToSave(bounded, p, "its user wants it", false); err != nil && ctx.Err() == nil {
		h.journal.remark(core.PhaseCheckpoint, "warning: the job could not be asked to write its checkpoint, and continues: "+err.Error())
	}
	if h.asked {
		exit, err = p.Wait(bounded)
	}
	done()
	switch late := h.asked && err != nil && ctx.Err() == nil && bounded.Err() != nil; {
	case !h.asked:
		h.journal.begin(core.PhaseRun)
		return exit, false, nil
	case late && h.wrote: // nothing is lost with it
		p.Signal(ctx, syscall.SIGKILL) //nolint:errcheck // it may have ended just now
		exit, err = p.Wait(ctx)
	case late:
		h.journal.begin(core.PhaseRun)
		h.journal.remark(core.PhaseRun, fmt.Sprintf("warning: the job has not ended within its `grace` of %v after it was asked to save itself; it continues, and once it ends, the run continues from what it has saved", grace))
		if exit, err = p.Wait(ctx); err == nil && exit.Code != 0 { // perhaps as a host was lost
			err = h.hosts.complete(ctx)
		}
	}
	if err == nil {
		rest, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		h.hasAnswered(rest, exit)
		if h.answer == core.AnswerNothing {
			err = h.unwritten(errSaveAsked)
		}
	}
	return exit, true, err
}

// beginSave begins the phase in place of the present one; what it gives ends it.
func (h *head) beginSave() (end func()) {
	h.journal.end(h.n.health().Phase)
	h.journal.begin(core.PhaseCheckpoint)
	return func() { h.journal.end(core.PhaseCheckpoint) }
}

// hasAnswered records how a job that was asked to write its checkpoint has ended.
func (h *head) hasAnswered(ctx context.Context, exit core.Exit) {
	// A shell may die of the signal before what it has started.
	h.n.current.runOwn(ctx, ranks.WaitCommand) //nolint:errcheck // what is left is killed with the container
	h.forgetStopFile()
	h.answer = h.answerOf(ctx, exit, h.before)
	h.saved = h.answer != core.AnswerNothing
}

// unanswered is why an attempt ends whose job was killed, as it continued after it
// was asked to write its checkpoint. What it had written may be whole or not: only copies
// that were made while it ran are continued from.
func unanswered(cause error, grace time.Duration) error {
	return &core.Error{
		Kind: core.KindOf(cause), Err: fmt.Errorf("%w: the job had not ended within its `grace` of %v after it was asked to save itself", cause, grace),
		Remedy: "Raise `grace` of `checkpoint:`, or have the job look more often whether it was asked. Where it writes its state now and then in any case, `every:` has copies collected, and the run continues from the last of them: docs/how-to/checkpoints.md.",
	}
}

// askToSave asks the job to write its checkpoint and to end, in the way that the Beefile names,
// unless it was asked already: a second signal may end it in the middle of writing. One
// whose `command:` fails is only asked to end where the attempt ends.
func (h *head) askToSave(ctx context.Context, p driver.Process, why string, ending bool) error {
	if h.asked {
		h.journal.say(core.PhaseCheckpoint, why+": the job was asked to write its checkpoint before")
		return nil
	}
	h.journal.say(core.PhaseCheckpoint, why+": asking the job to write its checkpoint")
	c := h.plan.Checkpoint
	var err error
	if h.before, err = h.observe(ctx); err != nil {
		h.n.Log.Warn("look at the files of a checkpoint", "err", err)
	}
	switch {
	case c.File != "":
		if err = h.writeStopFile(ctx); err == nil {
			h.setAsked()
			return nil
		}
	case len(c.Command) > 0:
		if err = h.saveCommand(ctx); err == nil {
			h.wrote = true
		}
	default:
		h.setAsked()
		some, err := h.signalRanks(ctx, c.Signal)
		if !some { // no MPI job runs: the signal is for the command itself
			err = errors.Join(err, p.Signal(ctx, syscall.Signal(c.Signal)))
		}
		return err
	}
	if err == nil || ending {
		h.setAsked()
		p.Signal(ctx, stopSignal(h.plan.Image.Config)) //nolint:errcheck // it may have ended just now
	}
	return err
}

func (h *head) setAsked() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = true
}

// askCheckpoint takes a checkpoint of the running job, as its user wants it, and gives its number;
// 0: the job is asked to write its checkpoint and to end, for it can make none otherwise, or shall
// move.
func (h *head) askCheckpoint(ctx context.Context, move bool) (int, error) {
	const op = "take a checkpoint"
	if h.input != nil {
		return 0, &core.Error{Kind: core.Unsupported, Op: op, Err: errors.New("its command reads what its user types or passes, which no other attempt gets again"), Remedy: "Run it without -i and -t, with `checkpoint:` in the Beefile."}
	}
	if h.plan.Checkpoint == nil {
		return 0, &core.Error{Kind: core.Unsupported, Op: op, Err: errors.New("the job does not say how it saves itself"), Remedy: "Give it `checkpoint:` in the Beefile."}
	}
	h.mu.Lock()
	asked, running := h.asked, h.running
	h.mu.Unlock()
	if h.n.health().Phase != core.PhaseRun || running == nil {
		return 0, &core.Error{Kind: core.Transient, Op: op, Err: errors.New("the job's command does not run (yet, or any more)"), Remedy: "Try again once it runs."}
	}
	if asked {
		return 0, &core.Error{Kind: core.Busy, Op: op, Err: errors.New("the job was asked to save itself before, and has not ended yet"), Remedy: "Once it ends, the run continues from what it has saved."}
	}
	if !move && h.goesOn() {
		return h.keepAsked(ctx, running)
	}
	select {
	case h.asks <- struct{}{}:
	default: // it is wanted already
	}
	return 0, nil
}

// signalRanks sends a signal to the ranks on all hosts at once, and reports
// whether there are any.
func (h *head) signalRanks(ctx context.Context, number int) (bool, error) {
	some := make([]bool, h.n.config.Size)
	var own error
	var wg sync.WaitGroup
	wg.Go(func() { some[0], own = h.n.current.signalRanks(ctx, number) })
	err := h.hosts.all(func(rank int, p *rpc.Peer) error {
		r, err := rpc.Call(ctx, p, callSignal, signalRequest{number})
		some[rank] = r.Some
		return err
	})
	wg.Wait()
	return slices.Contains(some, true), errors.Join(own, err)
}

// stopFile is the job's stop file on this host: its name in the volume.
func (h *head) stopFile() (volume *fsutil.Root, name string, err error) {
	rel, _ := h.plan.InVolume(h.plan.Checkpoint.File)
	if volume, err = h.n.trees().Open(plan.VolumeDir(h.n.config.Host.Dir)); err != nil {
		return nil, "", err
	}
	if name, err = snapshot.Place(volume, rel); err != nil {
		volume.Close()
		return nil, "", err
	}
	return volume, name, nil
}

// forgetStopFile keeps it from ending the next attempt too.
func (h *head) forgetStopFile() {
	if h.plan.Checkpoint.File == "" {
		return
	}
	if h.hasVolumeImage() {
		h.inVolume(context.Background(), "rm", "-f", h.plan.Checkpoint.File) //nolint:errcheck // see below
	} else if volume, name, err := h.stopFile(); err == nil {
		volume.RemoveAll(name) //nolint:errcheck // the job may have removed it
		volume.Close()
	}
}

// saveCommand runs the command that has the job write its checkpoint, in the
// job's container.
func (h *head) saveCommand(ctx context.Context) error {
	b := h.n.current.get()
	log, err := fsutil.Append(plan.NodeLogPath(h.n.config.Host.Dir, 0), 0o600)
	if err != nil {
		return err
	}
	into, copied, err := bounded(log, mostPrinted)
	if err != nil {
		return err
	}
	p, err := b.Exec(ctx, driver.Command{Args: h.plan.Checkpoint.Command, Env: b.env, Dir: b.workdir, Stdout: into, Stderr: into})
	into.Close() // the command has it
	if err != nil {
		return err
	}
	exit, err := p.Wait(ctx)
	select {
	case <-copied:
	case <-time.After(time.Second): // something that it has started has its output still
	}
	switch {
	case err != nil:
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL) //nolint:errcheck // it may have ended just now
		return fmt.Errorf("`checkpoint.command` did not end in time: %w", err)
	case exit.Code != 0:
		return fmt.Errorf("`checkpoint.command` ended with exit code %d; `bee logs --node 0 %s` shows what it wrote", exit.Code, h.n.config.Owner.Run)
	}
	return nil
}

// mostPrinted is how many bytes of what a command of the job writes go into the node's log.
const mostPrinted = 1 << 20

// bounded gives a pipe of which so many bytes go to a log, and the rest nowhere. copied is
// closed once all that write to it have ended, and the log is closed then.
func bounded(log io.WriteCloser, most int) (into *os.File, copied <-chan struct{}, err error) {
	from, into, err := os.Pipe()
	if err != nil {
		return nil, nil, errors.Join(err, log.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer from.Close()
		defer log.Close()
		io.Copy(&core.Limited{W: log, Left: most}, from) //nolint:errcheck // the command must not wait for a full disk
		io.Copy(io.Discard, from)                        //nolint:errcheck // see above
	}()
	return into, done, nil
}
