package runcmd

import (
	"context"
	"errors"
	"slices"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
)

// casesToMove returns the cases of an array that a move is for: those that run, and where they
// are sent to sites also those that wait. None: the word means no array.
func (a *ResumeCommands) casesToMove(ctx context.Context, word string, sent bool) ([]state.Run, error) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	cases, err := s.Cases(ctx, word, state.ToReach)
	if err != nil || len(cases) == 0 {
		return nil, err
	}
	moved := slices.DeleteFunc(cases, func(r state.Run) bool { return r.State != state.Running && !(sent && r.State == state.Queued) })
	moved, err = packsInstead(ctx, s, moved)
	if err != nil {
		return nil, err
	}
	if len(moved) == 0 {
		return nil, &core.Error{
			Kind: core.NotFound, Op: "move the cases of array", Object: word, Err: errors.New("none of them runs"),
			Remedy: "`bee ps " + word + "` lists them. With --site, those that wait are sent to other sites, too.",
		}
	}
	return moved, nil
}

// packsInstead returns the packs of cases in place of these, each once.
func packsInstead(ctx context.Context, s *workspace.Session, cases []state.Run) ([]state.Run, error) {
	var list []state.Run
	for _, run := range cases {
		if run.Case.Pack != "" {
			if slices.ContainsFunc(list, func(r state.Run) bool { return r.ID == run.Case.Pack }) {
				continue
			}
			var err error
			if run, err = s.Store.Run(ctx, run.Case.Pack); err != nil {
				return nil, err
			}
		}
		list = append(list, run)
	}
	return list, nil
}

// moveCases moves each of these runs. One that cannot be moved keeps none of the others from
// it, and one that has ended in the meantime stays where it is.
func (a *ResumeCommands) moveCases(ctx context.Context, cases []state.Run, sites []string, asJSON bool) error {
	t := a.NewTally(asJSON)
	for _, run := range cases {
		_, err := a.move(ctx, run.ID, sites, workspace.Seen{})
		if err != nil {
			if now, ended := a.ended(ctx, run.ID); ended {
				a.Say("run %s is over (%s), and stays where it was", now.ID, now.State)
				run, err = now, nil
			}
		}
		t.Add(console.DoneView{ID: run.ID, State: run.State}, err)
	}
	return t.End()
}

// ended returns a run as its record has it now, and reports whether it is over.
func (a *ResumeCommands) ended(ctx context.Context, id string) (state.Run, bool) {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return state.Run{}, false // a move has failed by the same, and reports it
	}
	defer s.Close()
	run, err := s.Store.Run(ctx, id)
	return run, err == nil && run.State.Final()
}
