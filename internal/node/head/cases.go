package head

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/node/container"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

// cases runs those of a pack, one after the other on free cores of this host. A case that
// dies ends no other.
type cases struct {
	plan    *plan.Plan
	node    Node
	runtime string
	volume  string // of the pack, on this host
	journal *journal.Journal
	output  taskOutput
	end     *ending

	mu    sync.Mutex
	known map[int]plan.CaseEnd // by the record in the volume, whose last line on a case counts
}

// runCases runs the cases of a pack to their ends. Where the attempt ends before, those that
// run are asked to write their checkpoints, and the rest is the next attempt's.
func (h *Head) runCases(ctx context.Context) error {
	h.journal.Enter(core.PhaseRun)
	cs := &cases{plan: h.plan, node: h.node, runtime: h.runtimes[0], volume: plan.VolumeDir(h.config.Host.Dir), journal: h.journal, output: h.commands.output, end: h.end}
	asked, cancel := h.saver.untilAsked(ctx)
	defer cancel()
	h.saver.setRunning(asked)
	err := cs.run(asked)
	h.journal.End(core.PhaseRun)
	switch cause := context.Cause(asked); {
	case err != nil:
		return err
	case asked.Err() == nil && cs.continues(): // by exit codes of their own
		h.saver.saved = true
		return nil
	case asked.Err() == nil: // all have ended
		h.exit = &core.Exit{}
		return nil
	case continuesAfter(cause):
		h.saver.saved, h.saver.answer = true, core.AnswerWrote
		return cause
	default:
		return cause
	}
}

// run starts a case whenever one has ended, until all have or ctx ends.
func (cs *cases) run(ctx context.Context) error {
	if err := cs.read(); err != nil {
		return err
	}
	next := make(chan plan.Case)
	go func() {
		defer close(next)
		for _, c := range cs.plan.Cases {
			if cs.of(c.Number).Ended() {
				continue
			}
			select {
			case next <- c:
			case <-ctx.Done():
				return
			}
		}
	}()
	for _, c := range cs.plan.Cases {
		if end := cs.of(c.Number); end.Ended() { // a controller that did not see that records it now
			cs.journal.Add(plan.Event{Phase: core.PhaseRun, Rank: -1, Case: &end})
		}
	}
	var all sync.WaitGroup
	errs := make([]error, cs.atOnce(runtime.NumCPU(), core.HostMemory()))
	for i := range errs {
		all.Go(func() {
			for c := range next {
				switch {
				case ctx.Err() != nil || errs[i] != nil:
				case cs.stops(c):
					errs[i] = cs.record(plan.CaseEnd{Number: c.Number, Kind: core.Stopped.String(), Message: "too many cases before it have failed"})
				default:
					errs[i] = cs.one(ctx, c)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// atOnce is how many cases run at the same time on a host.
func (cs *cases) atOnce(cores int, memory int64) int {
	n := cores / max(1, cs.plan.CaseCores)
	if cs.plan.CaseMemory > 0 && memory > 0 {
		n = int(min(int64(n), memory/cs.plan.CaseMemory))
	}
	if most := cs.plan.CaseAtOnce; most > 0 {
		n = min(n, most)
	}
	return max(1, n)
}

// stops reports whether too many others have failed for a case to begin. One that has a checkpoint has
// begun.
func (cs *cases) stops(c plan.Case) bool {
	if cs.plan.CaseStopAt == 0 || cs.of(c.Number).Saved {
		return false
	}
	failed := 0
	for _, c := range cs.plan.Cases {
		if cs.of(c.Number).Failed() {
			failed++
		}
	}
	return failed >= max(0, cs.plan.CaseStopAt)
}

// continues reports whether a case has written its checkpoint and not ended.
func (cs *cases) continues() bool {
	return slices.ContainsFunc(cs.plan.Cases, func(c plan.Case) bool { return cs.of(c.Number).Saved })
}

// one runs a case to its end, or to that of ctx. Its error is one of the pack: what is wrong
// with a case is its own result.
func (cs *cases) one(ctx context.Context, c plan.Case) error {
	was := cs.of(c.Number)
	dir, err := cs.dir(c.Number, was.Saved)
	if err != nil {
		return err
	}
	cs.journal.Add(plan.Event{Phase: core.PhaseRun, Rank: 0, Case: &plan.CaseEnd{Number: c.Number}})
	end := plan.CaseEnd{Number: c.Number}
	steps, command := c.Steps, c.Command
	if was.Saved { // what setup did is in its volume
		steps, command = c.Steps[command:], 0
		if c.Resume != nil {
			steps = c.Resume
		}
	}
	b, err := cs.node.StartCase(ctx, cs.runtime, c, dir)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		end.Kind, end.Message = core.KindOf(err).String(), err.Error()
		return cs.record(end)
	}
	defer func() {
		stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), endGrace+10*time.Second)
		defer cancel()
		core.BestEffort(b.Stop(stop, endGrace)) // its processes end with this one
		b.Release()
	}()
	if was.Saved { // from here on its directory is no checkpoint: a head that is lost must not leave it as one
		if ctx.Err() != nil {
			return nil
		}
		if err := cs.record(plan.CaseEnd{Number: c.Number}); err != nil {
			return err
		}
	}
	for i, argv := range steps {
		exit, saved, err := cs.step(ctx, b, c, argv, i == command)
		succeeded := err == nil && exit.Code == 0
		switch {
		case saved:
			return cs.record(plan.CaseEnd{Number: c.Number, Saved: true})
		case ctx.Err() != nil && !(succeeded && i == len(steps)-1): // the next attempt runs it again
			return nil
		case err != nil:
			return cs.record(plan.CaseEnd{Number: c.Number, Kind: core.KindOf(err).String(), Message: err.Error()})
		}
		end.Exit = &exit
		if exit.Code != 0 {
			break
		}
	}
	return cs.record(end)
}

// step runs a command of a case. Its run command can write its checkpoint: saved reports whether
// it has.
func (cs *cases) step(ctx context.Context, b *container.Container, c plan.Case, argv []string, runs bool) (exit core.Exit, saved bool, err error) {
	output := cs.output.ofCase(c.Number)
	p, err := output.start(driver.Command{Args: argv, Env: taskEnv(b), Dir: b.Workdir}, func(c driver.Command) (driver.Process, error) { return b.Exec(ctx, c) })
	if err != nil {
		exit, err = output.notStarted(err)
		return exit, false, err
	}
	defer p.close()
	exit, err = p.process.Wait(ctx)
	if ctx.Err() != nil && !(err == nil && exit.Code == 0) { // other codes may be of what ends the attempt
		rest, cancel := cs.end.rest(ctx)
		saved = cs.ask(rest, p.process, runs && c.Saves, context.Cause(ctx))
		cancel()
	}
	p.output.Drain()
	saved = saved || err == nil && runs && c.Saves && exit.Code == plan.ContinueCode
	return exit, saved, err
}

// ask ends a case whose attempt ends for a cause: where that continues, and the case saves, it is
// asked to write its checkpoint, and has the grace for it.
func (cs *cases) ask(ctx context.Context, p driver.Process, saves bool, cause error) (saved bool) {
	signal := stopSignal(cs.plan.Image.Config)
	saves = saves && cs.plan.Checkpoint != nil && cs.plan.Checkpoint.Signal > 0 && continuesAfter(cause)
	if saves {
		signal = syscall.Signal(cs.plan.Checkpoint.Signal)
	}
	return endProcess(ctx, p, signal, cs.end.graceNow()) && saves
}

// continuesAfter reports whether another attempt continues after one that has ended for a cause.
func continuesAfter(cause error) bool {
	return errors.Is(cause, errSlotEnds) || errors.Is(cause, errTakenBack) || errors.Is(cause, errSaveAsked)
}

// dir returns the volume of a case. Where the case does not continue it is empty.
func (cs *cases) dir(number int, continues bool) (string, error) {
	volume, err := fsutil.OpenRoot(cs.volume)
	if err != nil {
		return "", err
	}
	defer volume.Close()
	name := plan.CaseDir(number)
	if !continues {
		if err := volume.RemoveAll(name); err != nil {
			return "", err
		}
	}
	if err := volume.Mkdir(name, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return volume.Path(name), nil
}

func (cs *cases) of(number int) plan.CaseEnd {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.known[number]
}

// read reads which cases need not run again. No job sees the record, as each has its own
// directory of the volume.
func (cs *cases) read() error {
	cs.known = map[int]plan.CaseEnd{}
	volume, err := fsutil.OpenRoot(cs.volume)
	if err != nil {
		return err
	}
	defer volume.Close()
	f, err := volume.Open(plan.CasesFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if cs.known, err = plan.ReadCases(f); err != nil {
		return fmt.Errorf("read %s: %w", plan.CasesFile, err)
	}
	return nil
}

// record stores how a case has ended or stands, durably before it is reported, and what it has
// written before that: its record alone means that it never runs again, or continues there.
func (cs *cases) record(end plan.CaseEnd) error {
	raw, err := json.Marshal(end)
	if err != nil {
		return err
	}
	volume, err := fsutil.OpenRoot(cs.volume)
	if err != nil {
		return err
	}
	defer volume.Close()
	if end.Ended() || end.Saved {
		core.BestEffort(volume.Sync(context.Background(), plan.CaseDir(end.Number))) // a case may leave what only its own ids may open
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.known[end.Number] = end
	f, err := volume.Append(plan.CasesFile, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\n%s\n", raw) // what is there may end in a torn line
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if end.Ended() {
		cs.journal.Add(plan.Event{Phase: core.PhaseRun, Rank: 0, Case: &end})
	}
	return nil
}
