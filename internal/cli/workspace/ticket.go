package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// TicketKey is the key with which tickets are sealed and opened.
func TicketKey() string { return os.Getenv("BEE_TICKET_KEY") }

// Ticket is how a command adopts a run by its ticket.
type Ticket struct {
	File        string
	machineLost bool
	trust       console.Trust
}

// Flags adds the flags of a ticket to those of a command.
func (t *Ticket) Flags(c *cobra.Command, trust *console.Trust) {
	c.Flags().StringVar(&t.File, "ticket", "", "adopt the job or jobs of this `file` of bee run --ticket, by the key in BEE_TICKET_KEY")
	c.Flags().BoolVar(&t.machineLost, "machine-lost", false, "with --ticket: another machine has adopted the job or jobs, and is lost")
	if trust == nil {
		t.trust.Flag(c.Flags(), "the ticket")
	}
}

// Trust is how far its user answers for the ticket.
func (t *Ticket) Trust(given console.Trust) { t.trust = given }

// Args checks the arguments of a command that names its run by a ticket, or else otherwise.
func (t *Ticket) Args(otherwise cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case t.File == "":
			return otherwise(c, args)
		case len(args) == 0:
			return nil
		}
		return &core.Error{
			Kind: core.Invalid, Op: "read arguments of", Object: c.CommandPath(), Err: fmt.Errorf("--ticket names the run, and %q is given, too", args[0]),
			Remedy: "Leave out one of them.",
		}
	}
}

// Adopt has this installation control the runs of a ticket, in the background.
func (s *Session) Adopt(ctx context.Context, t Ticket) ([]state.Run, error) {
	tickets, err := control.ReadTicket(t.File, TicketKey())
	if err != nil {
		return nil, err
	}
	f := s.Workspace.Foreign("the job of the ticket", "it is in "+t.File, t.trust)
	f.Sites = func([]string) ([]spec.Site, error) { return s.Workspace.LoadSites(&spec.Job{}) }
	runs, err := s.AdoptTickets(ctx, tickets, f, t.machineLost)
	ids, derr := s.dueOf(ctx, runs)
	if berr := cmp.Or(derr, s.Background(ids...)); err == nil {
		err = berr
	}
	if err != nil {
		return runs, err
	}
	if over, machine := control.OverBefore(tickets); over > 0 {
		s.Workspace.Say("%d of %s had ended before the ticket was made: machine %q has fetched the outputs", over, console.CountText(len(tickets), "run"), machine)
	}
	for _, run := range runs {
		if run.Suspended == state.ReasonTicket || run.Suspended == state.ReasonAdopted {
			s.Workspace.PrintError(&core.Error{Kind: core.KindNamed(run.Kind), Op: "continue run", Object: run.ID, Err: errors.New(run.Message), Remedy: run.Remedy})
		}
	}
	return runs, nil
}

// dueOf returns those of adopted runs that need a controller now, or have notifications to send.
func (s *Session) dueOf(ctx context.Context, runs []state.Run) ([]string, error) {
	due, err := s.unsent(ctx)
	if err != nil {
		return nil, err
	}
	looked := map[string]bool{}
	for _, run := range runs {
		array := run.Case.Array
		switch {
		case run.State.Final() || run.State.Resumable() || s.Store.Locks().Controlled(run.ID):
		case run.Case.AtOnce == 0:
			due = append(due, run.ID)
		case !looked[array]: // the supervisor continues the others in their turn
			looked[array] = true
			cases, err := s.Store.Arrays().Due(ctx, array)
			if err != nil {
				return nil, err
			}
			due = append(due, cases...)
		}
	}
	slices.Sort(due)
	return slices.Compact(due), nil
}

// AdoptedText says of what a ticket had what is adopted, and returns the words that mean it: arrays
// and runs; "": all of it is over.
func AdoptedText(runs []state.Run) (what, words string) {
	if !slices.ContainsFunc(runs, func(r state.Run) bool { return !r.State.Final() }) {
		return "", ""
	}
	jobs := JobsOf(runs)
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.Job()
	}
	words = strings.Join(ids, " ")
	switch {
	case len(jobs) > 1:
		return console.CountText(len(jobs), "job"), words
	case jobs[0].Case.Array != "":
		return "array " + words, words
	}
	return "run " + words, words
}

// JobsOf returns of runs those that are in no array, and one case of each array.
func JobsOf(runs []state.Run) (jobs []state.Run) {
	seen := map[string]bool{}
	for _, run := range runs {
		if array := run.Case.Array; array == "" || !seen[array] {
			seen[array] = true
			jobs = append(jobs, run)
		}
	}
	return jobs
}
