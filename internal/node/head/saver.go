package head

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/mpi/ranks"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/node/peercall"
	"github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/rpc"
)

// saver asks the job to write its checkpoint and to end, and judges whether it did.
type saver struct {
	config    plan.Config
	plan      *plan.Plan
	log       *slog.Logger
	journal   *journal.Journal
	hosts     *hosts
	current   *container.Current
	volumes   *volumes
	image     *imageVolume
	snapshots *snapshots
	reads     bool          // the job's command reads from its user
	asks      chan struct{} // that it write its checkpoint now, and end

	saved    bool        // the task has written its checkpoint
	wrote    bool        // it is known to have, by `checkpoint.command`
	before   evidence    // when it was asked
	answer   core.Answer // how it ended then
	snapshot int         // the one that the run continues from, of saved machines

	mu      sync.Mutex
	asked   bool            // it was asked to write its checkpoint, and to end
	running context.Context // as long as the job's command does; nil: it has not begun
}

// setRunning records that the job's command runs as long as ctx.
func (s *saver) setRunning(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = ctx
}

// wantsVolume reports whether all that the volume holds is wanted: the run continues from
// it or, where the job was asked to write its checkpoint and did not end, its user may.
func (s *saver) wantsVolume() bool { return s.saved || s.asked }

// savingFor reports why the job shall write its checkpoint when its attempt ends for a
// cause; false: it shall not. Before its command runs there is nothing to save:
// what a half-done setup leaves is no state from which a run could continue.
func (s *saver) savingFor(cause error) (string, bool) {
	if s.plan.Checkpoint == nil || s.journal.Phase() != core.PhaseRun {
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

// askCheckpoint takes a checkpoint of the running job, as its user wants it, and gives its number;
// 0: the job is asked to write its checkpoint and to end, for it can make none otherwise, or shall
// move.
func (s *saver) askCheckpoint(ctx context.Context, move bool) (int, error) {
	const op = "take a checkpoint"
	if s.reads {
		return 0, &core.Error{Kind: core.Unsupported, Op: op, Err: errors.New("its command reads what its user types or passes, which no other attempt gets again"), Remedy: "Run it without -i and -t, with `checkpoint:` in the Beefile."}
	}
	if s.plan.Checkpoint == nil {
		return 0, &core.Error{Kind: core.Unsupported, Op: op, Err: errors.New("the job does not say how it saves itself"), Remedy: "Give it `checkpoint:` in the Beefile."}
	}
	s.mu.Lock()
	asked, running := s.asked, s.running
	s.mu.Unlock()
	if s.journal.Phase() != core.PhaseRun || running == nil {
		return 0, &core.Error{Kind: core.Transient, Op: op, Err: errors.New("the job's command does not run (yet, or any more)"), Remedy: "Try again once it runs."}
	}
	if asked {
		return 0, &core.Error{Kind: core.Busy, Op: op, Err: errors.New("the job was asked to save itself before, and has not ended yet"), Remedy: "Once it ends, the run continues from what it has saved."}
	}
	if !move && continues(s.plan) {
		return s.snapshots.keepAsked(ctx, running)
	}
	select {
	case s.asks <- struct{}{}:
	default: // it is wanted already
	}
	return 0, nil
}

// untilAsked is a context that ends when ctx does, or when the user wants the job to write its
// checkpoint and to end: errSaveAsked is the cause then.
func (s *saver) untilAsked(ctx context.Context) (context.Context, context.CancelFunc) {
	until, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.asks:
			cancel(errSaveAsked)
		case <-until.Done():
		}
	}()
	return until, func() { cancel(nil) }
}

// saveAndEnd has the job write its checkpoint and end, and kills it when the
// grace is over. Exit code 0 means nothing here: many programs end with it when
// they were asked to stop, and one that was done just then is soon done again.
func (s *saver) saveAndEnd(ctx context.Context, p driver.Process, why string, grace time.Duration) {
	defer s.beginSave()()
	ctx, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := s.askToSave(ctx, p, why, true); err != nil {
		s.journal.Say(core.PhaseCheckpoint, "warning: the job could not be asked to write its checkpoint: "+err.Error())
	}
	exit, err := p.Wait(ctx)
	if err == nil {
		s.hasAnswered(ctx, exit)
		return
	}
	p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
	s.forgetStopFile()
	s.saved = s.wrote
}

// checkpointAsked has the job do so as its user wants it. One that is too slow is not
// killed, for then all since its last checkpoint would be lost: whenever it ends after
// it was asked, and with whatever exit code, it has answered. ended reports whether it has,
// or the attempt shall end.
func (s *saver) checkpointAsked(ctx context.Context, p driver.Process) (exit core.Exit, ended bool, err error) {
	grace := s.plan.Checkpoint.Grace
	done := s.beginSave()
	bounded, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if err := s.askToSave(bounded, p, "its user wants it", false); err != nil && ctx.Err() == nil {
		s.journal.Remark(core.PhaseCheckpoint, "warning: the job could not be asked to write its checkpoint, and continues: "+err.Error())
	}
	if s.asked {
		exit, err = p.Wait(bounded)
	}
	done()
	switch late := s.asked && err != nil && ctx.Err() == nil && bounded.Err() != nil; {
	case !s.asked:
		s.journal.Begin(core.PhaseRun)
		return exit, false, nil
	case late && s.wrote: // nothing is lost with it
		p.Signal(ctx, syscall.SIGKILL)
		exit, err = p.Wait(ctx)
	case late:
		s.journal.Begin(core.PhaseRun)
		s.journal.Remark(core.PhaseRun, fmt.Sprintf("warning: the job has not ended within its `grace` of %v after it was asked to save itself; it continues, and once it ends, the run continues from what it has saved", grace))
		if exit, err = p.Wait(ctx); err == nil && exit.Code != 0 { // perhaps as a host was lost
			err = s.hosts.complete(ctx)
		}
	}
	if err == nil {
		rest, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		s.hasAnswered(rest, exit)
		if s.answer == core.AnswerNothing {
			err = s.unwritten(errSaveAsked)
		}
	}
	return exit, true, err
}

// beginSave begins the phase in place of the present one; what it gives ends it.
func (s *saver) beginSave() (end func()) {
	s.journal.End(s.journal.Phase())
	s.journal.Begin(core.PhaseCheckpoint)
	return func() { s.journal.End(core.PhaseCheckpoint) }
}

// hasAnswered records how a job that was asked to write its checkpoint has ended.
func (s *saver) hasAnswered(ctx context.Context, exit core.Exit) {
	// A shell may die of the signal before what it has started.
	core.BestEffort(s.current.RunOwn(ctx, ranks.WaitCommand)) // what is left is killed with the container
	s.forgetStopFile()
	s.answer = s.answerOf(ctx, exit, s.before)
	s.saved = s.answer != core.AnswerNothing
}

// askToSave asks the job to write its checkpoint and to end, in the way that the Beefile names,
// unless it was asked already: a second signal may end it in the middle of writing. One
// whose `command:` fails is only asked to end where the attempt ends.
func (s *saver) askToSave(ctx context.Context, p driver.Process, why string, ending bool) error {
	if s.asked {
		s.journal.Say(core.PhaseCheckpoint, why+": the job was asked to write its checkpoint before")
		return nil
	}
	s.journal.Say(core.PhaseCheckpoint, why+": asking the job to write its checkpoint")
	c := s.plan.Checkpoint
	var err error
	if s.before, err = s.observe(ctx); err != nil {
		s.log.Warn("look at the files of a checkpoint", "err", err)
	}
	switch {
	case c.File != "":
		if err = s.writeStopFile(ctx); err == nil {
			s.setAsked()
			return nil
		}
	case len(c.Command) > 0:
		if err = saveCommand(ctx, s.config, c, s.current.Get()); err == nil {
			s.wrote = true
		}
	default:
		s.setAsked()
		some, err := s.signalRanks(ctx, c.Signal)
		if !some { // no MPI job runs: the signal is for the command itself
			err = errors.Join(err, p.Signal(ctx, syscall.Signal(c.Signal)))
		}
		return err
	}
	if err == nil || ending {
		s.setAsked()
		p.Signal(ctx, stopSignal(s.plan.Image.Config))
	}
	return err
}

func (s *saver) setAsked() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = true
}

// signalRanks sends a signal to the ranks on all hosts at once, and reports
// whether there are any.
func (s *saver) signalRanks(ctx context.Context, number int) (bool, error) {
	some := make([]bool, s.config.Size)
	var own error
	var wg sync.WaitGroup
	wg.Go(func() { some[0], own = s.current.SignalRanks(ctx, number) })
	err := s.hosts.all(func(rank int, p *rpc.Peer) error {
		r, err := rpc.Call(ctx, p, peercall.CallSignal, peercall.SignalRequest{Number: number})
		some[rank] = r.Some
		return err
	})
	wg.Wait()
	return slices.Contains(some, true), errors.Join(own, err)
}

// saveMachines saves the machines when the attempt shall end: they do not continue
// here.
func (s *saver) saveMachines(ctx context.Context, why string, grace time.Duration) {
	defer s.beginSave()()
	s.journal.Say(core.PhaseCheckpoint, why+": saving the virtual machines")
	ctx, cancel := context.WithTimeoutCause(ctx, grace, fmt.Errorf("it took longer than `checkpoint.grace`, %v", grace))
	defer cancel()
	n, err := s.snapshots.saveAtEnd(ctx)
	if err != nil {
		s.journal.Remark(core.PhaseCheckpoint, "warning: the virtual machines could not be saved: "+err.Error())
		return
	}
	s.snapshot, s.saved = n, true
}

// writeStopFile makes the job's stop file, which belongs to the user.
func (s *saver) writeStopFile(ctx context.Context) error {
	if !s.plan.UsesDataImage() {
		tree, name, err := s.stopFile()
		if err != nil {
			return err
		}
		defer tree.Close()
		return tree.WriteFile(name, nil, 0o644)
	}
	uid, gid := os.Geteuid(), os.Getegid()
	if s.plan.Root {
		uid, gid = 0, 0
	}
	return s.image.change(ctx, "install", "-m", "644", "-o", strconv.Itoa(uid), "-g", strconv.Itoa(gid), "/dev/null", s.plan.Checkpoint.File)
}

// stopFile is the job's stop file on this host: its name in the volume.
func (s *saver) stopFile() (volume *fsutil.Root, name string, err error) {
	return s.volumes.place(s.plan.Checkpoint.File)
}

// forgetStopFile keeps it from ending the next attempt too.
func (s *saver) forgetStopFile() {
	if s.plan.Checkpoint.File == "" {
		return
	}
	if s.plan.UsesDataImage() {
		core.BestEffort(s.image.change(context.Background(), "rm", "-f", s.plan.Checkpoint.File))
	} else if volume, name, err := s.stopFile(); err == nil {
		core.BestEffort(volume.RemoveAll(name)) // the job may have removed it
		volume.Close()
	}
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

// saveCommand runs the command that has the job write its checkpoint, in the
// job's container.
func saveCommand(ctx context.Context, c plan.Config, checkpoint *plan.Checkpoint, b *container.Container) error {
	if b == nil {
		return errors.New("run `checkpoint.command`: the container has ended")
	}
	log, err := fsutil.Append(plan.NodeLogPath(c.Host.Dir, 0), 0o600)
	if err != nil {
		return err
	}
	into, copied, err := bounded(log, mostPrinted)
	if err != nil {
		return err
	}
	p, err := b.Exec(ctx, driver.Command{Args: checkpoint.Command, Env: b.Env, Dir: b.Workdir, Stdout: into, Stderr: into})
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
		p.Signal(context.WithoutCancel(ctx), syscall.SIGKILL)
		return fmt.Errorf("`checkpoint.command` did not end in time: %w", err)
	case exit.Code != 0:
		return fmt.Errorf("`checkpoint.command` ended with exit code %d; `bee logs --node 0 %s` shows what it wrote", exit.Code, c.Owner.Run)
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
		core.BestEffort(io.Copy(&core.Limited{W: log, Left: most}, from)) // the command must not wait for a full disk
		io.Copy(io.Discard, from)
	}()
	return into, done, nil
}
