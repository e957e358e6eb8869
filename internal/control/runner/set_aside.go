package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/fsutil"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
)

// maxText bounds a text of another user that goes into a record.
const maxText = 4 << 10

// StackPath is the file with the stack of the panic for which a run was set aside.
func StackPath(runDir string) string { return filepath.Join(runDir, "panic.txt") }

// unreadable is the error of an attempt whose record does not parse.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

func readable(attempts []state.Attempt) error {
	for _, at := range attempts {
		if at.Unreadable != nil {
			return unreadable{at.Unreadable}
		}
	}
	return nil
}

// poison returns the error that would end each later controller of the run as well: a panic,
// also of another goroutine that has ended ctx, or a record that does not parse. nil: a later
// controller may succeed.
func poison(ctx context.Context, err error) error {
	for _, e := range []error{context.Cause(ctx), err} {
		if p, is := errors.AsType[*core.Panic](e); is {
			return p
		}
	}
	if errors.As(err, new(unreadable)) {
		return err
	}
	return nil
}

// guard calls f. Its panic ends the run's controller, and no other's.
func (r *controlled) guard(f func()) {
	err := core.Caught(func() error { f(); return nil })
	if err != nil && r.fail != nil {
		r.fail(err)
	}
}

// setAside records why no controller can carry a run, so that none tries again before its
// user wants it. A run that is over stays so.
func (c *Runner) setAside(ctx context.Context, id string, why error) (state.Run, error) {
	ctx = context.WithoutCancel(ctx)
	run, err := c.Store.Run(ctx, id)
	if err != nil {
		return run, errors.Join(why, err)
	}
	text := time.Now().Format(time.RFC3339) + " " + why.Error() + "\n"
	if p, is := errors.AsType[*core.Panic](why); is {
		text += p.Stack
	}
	c.Log.Error("a run is set aside", "run", id, "err", why)
	if err := fsutil.WriteFile(StackPath(c.Store.RunDir(id)), []byte(text), 0o600); err != nil {
		c.Log.Warn("the stack could not be written", "run", id, "err", err, "stack", text)
	}
	if run.State.Final() {
		return run, &core.Error{
			Kind: core.Permanent, Op: "remove what is left of run", Object: id, Err: why,
			Remedy: "`bee rm --force " + id + "` forgets the run, and leaves what is on its sites.",
		}
	}
	run.State = state.SetAside
	run.Kind, run.Message = core.Permanent.String(), core.Printable("its controller cannot continue it: "+why.Error(), maxText)
	run.Remedy = fmt.Sprintf("What it has on its site is left there. `bee resume %s` tries again, such as with another version of bee; `bee stop %s` ends it, and what was not collected is removed. The stack is in %s: please report it.",
		id, id, StackPath(c.Store.RunDir(id)))
	aside := event.Event{Run: id, Time: time.Now(), Fields: event.SetAside{Cause: event.Cause{Kind: run.Kind, Message: run.Message, Remedy: run.Remedy}}}
	_, err = c.Store.Write(ctx, state.Change{Run: &run, Events: []event.Event{aside}})
	return run, err
}

// SetAside sets a run aside whose controllers crash, with the reason and the runtime's text
// of the last crash. It does nothing to a run with a controller.
func (c *Runner) SetAside(ctx context.Context, id, reason, text string) error {
	lock, err := c.Store.Locks().Acquire(id)
	if core.IsKind(err, core.Busy) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Unlock()
	var stack strings.Builder
	for line := range strings.Lines(text) {
		stack.WriteString(core.Printable(strings.TrimSuffix(line, "\n"), maxText) + "\n")
	}
	run, err := c.setAside(ctx, id, &core.Panic{Value: strings.TrimPrefix(reason, "panic: "), Stack: stack.String()})
	if run.State.Final() {
		return nil // the error is for a controller
	}
	return err
}

// driveAside ends a run that was set aside, if its user wants that. Nothing is collected:
// reports of its sites have made controllers panic.
func (c *Runner) driveAside(ctx context.Context, run state.Run) (state.Run, error) {
	if !run.StopAsked {
		return run, nil
	}
	attempts, err := c.Store.Attempts(ctx, run.ID)
	if err != nil {
		return run, err
	}
	sub, serr := submission.Of(run)
	for _, rec := range attempts {
		if rec.Released() {
			continue
		}
		err := serr
		if err == nil {
			d := &drive{controlled: control(c, run, sub), during: ctx}
			err = core.Caught(func() error { return d.cleanUp(ctx, rec) })
		}
		if ctx.Err() != nil {
			return run, context.Cause(ctx)
		}
		if err != nil {
			e := event.Event{Run: run.ID, Attempt: rec.N, Fields: event.RemovalFailed{Site: rec.Site, Cause: event.CauseOf(err)}}
			c.ReportText(core.PhaseRelease, report.Sentence(e))
			if _, err := c.Store.AddEvent(ctx, e); err != nil {
				return run, err
			}
		}
	}
	if serr == nil {
		clearArrivals(&sub, c.Log, run.ID)
	}
	return c.finish(ctx, run, outcome{state: state.Stopped, err: &core.Error{
		Kind: core.Stopped, Err: errors.New("stopped by its user after " + run.Message),
		Remedy: "What was not collected then is removed, as no controller could collect it.",
	}})
}
