package workspace

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// LeaveBehind has a run that is not over continue in the background, where the process that controlled
// it leaves: the job may compute, and nobody would end it.
func (s *Session) LeaveBehind(ctx context.Context, id string, lock *state.Lock) {
	run, err := s.Store.Run(ctx, id)
	if err == nil && (run.State.Final() || run.State.Resumable()) {
		return
	}
	if err = lock.Unlock(); err == nil {
		err = s.Background(id)
	}
	if err != nil {
		s.Log.Warn("hand over to the background", "run", id, "err", err)
	}
}

// Cases returns the runs of the array that a word means, in the order of its cases; none: it
// means none.
func (s *Session) Cases(ctx context.Context, word string, why state.Meaning) ([]state.Run, error) {
	array, err := s.Store.Arrays().Find(ctx, word, why)
	if err != nil || array.ID == "" {
		return nil, err
	}
	return s.Store.Arrays().Runs(ctx, array.ID)
}

// Carrier returns the run whose lease a case shares, and prints that this one is meant. Of
// another run it returns that one.
func (s *Session) Carrier(ctx context.Context, run state.Run) (state.Run, error) {
	if run.Case.Pack == "" || run.State.Final() {
		return run, nil
	}
	pack, err := s.Store.Run(ctx, run.Case.Pack)
	if err == nil {
		s.Workspace.Say("case %s shares the hosts of run %s (%s): that one is meant, with all of its cases", run.Name, pack.ID, pack.Name)
	}
	return pack, err
}

// carriers returns the runs that are to end, with the packs in place of their cases. Invalid: a
// pack has other cases, which would end as well.
func (s *Session) carriers(ctx context.Context, runs []state.Run) ([]state.Run, error) {
	packed := map[string]int{}
	rest := slices.DeleteFunc(slices.Clone(runs), func(run state.Run) bool {
		is := run.Case.Pack != "" && !run.State.Final()
		if is {
			packed[run.Case.Pack]++
		}
		return is
	})
	for _, id := range slices.Sorted(maps.Keys(packed)) {
		if slices.ContainsFunc(rest, func(run state.Run) bool { return run.ID == id }) {
			continue
		}
		live, err := s.Store.Arrays().Packed(ctx, id)
		if err != nil {
			return nil, err
		}
		if len(live) > packed[id] {
			return nil, &core.Error{
				Kind: core.Invalid, Op: "end a case of run", Object: id, Err: fmt.Errorf("%d other cases share its hosts, and would end as well", len(live)-packed[id]),
				Remedy: "`bee stop " + id + "` ends all of them.",
			}
		}
		pack, err := s.Store.Run(ctx, id)
		if err != nil {
			return nil, err
		}
		rest = append(rest, pack)
	}
	return rest, nil
}

// Named gives the runs that the arguments of a command mean, each once. An array means its
// cases.
func (s *Session) Named(ctx context.Context, words []string, why state.Meaning) ([]state.Run, error) {
	var runs []state.Run
	seen := map[string]bool{}
	for _, w := range words {
		meant, err := s.Cases(ctx, w, why)
		if err == nil && len(meant) > 0 && why == state.ToForget { // they are removed with their cases
			var packs []state.Run
			packs, err = s.Store.Arrays().Packs(ctx, meant[0].Case.Array)
			meant = append(meant, packs...)
		}
		if err == nil && len(meant) == 0 {
			var run state.Run
			run, err = s.Store.FindRun(ctx, w, why)
			meant = []state.Run{run}
		}
		if err != nil {
			return nil, err
		}
		for _, run := range meant {
			if !seen[run.ID] {
				seen[run.ID] = true
				runs = append(runs, run)
			}
		}
	}
	if why == state.ToEnd {
		return s.carriers(ctx, runs)
	}
	return runs, nil
}

// WaitLook is how often bee wait looks at the records.
const WaitLook = 250 * time.Millisecond

// lookShare is how much longer it waits than a look takes, of which many runs may make a
// long one.
const lookShare = 20

// AwaitEnds returns the runs that are over, once all are, or one of them.
func (s *Session) AwaitEnds(ctx context.Context, runs []state.Run, one bool) ([]state.Run, error) {
	return s.AwaitUntil(ctx, runs, func(_ []state.Run, over int) bool { return over == len(runs) || one && over > 0 })
}

// AwaitUntil returns the runs that are over, once enough reports so of all as they are then, of
// which so many are over. One that was removed counts as an error of its own: nobody knows how it ended.
func (s *Session) AwaitUntil(ctx context.Context, runs []state.Run, enough func(now []state.Run, over int) bool) ([]state.Run, error) {
	now := append([]state.Run{}, runs...)
	for {
		var over []state.Run
		var waiting string
		begun := time.Now()
		live, err := state.Live(ctx, s.Store)
		if err != nil {
			return nil, waitError(ctx, runs[0].ID, err)
		}
		for i := range now {
			if in, is := live[now[i].ID]; is && !in.Resumable() {
				now[i].State = in
			} else if !now[i].State.Final() {
				run, err := s.Store.Run(ctx, now[i].ID)
				if core.IsKind(err, core.NotFound) {
					run, err = removed(now[i]), nil
				}
				if err != nil {
					return nil, waitError(ctx, runs[i].ID, err)
				}
				now[i] = run
			}
			if now[i].State.Final() || now[i].State.Resumable() {
				over = append(over, now[i])
			} else {
				waiting = now[i].ID
			}
		}
		if enough(now, len(over)) {
			return over, nil
		}
		select {
		case <-time.After(max(WaitLook, lookShare*time.Since(begun))):
		case <-ctx.Done():
			return nil, waitError(ctx, waiting, ctx.Err())
		}
	}
}

// removed is a run whose record was removed before its end was seen. No exit code is that of its end.
func removed(run state.Run) state.Run {
	run.State, run.Kind, run.ExitCode = state.Failed, core.NotFound.String(), nil
	run.Message, run.Remedy = "its record was removed before this command saw how it ended", "Remove runs by `bee rm` once nothing waits for them."
	return run
}

// waitError is why the end of a run was not seen.
func waitError(ctx context.Context, run string, err error) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return &core.Error{Kind: core.Busy, Op: "wait for run", Object: run, Err: errors.New("the time is up, and it is not over"), Remedy: fmt.Sprintf("`bee show %s` shows what it does. It continues.", run)}
	}
	return err
}
