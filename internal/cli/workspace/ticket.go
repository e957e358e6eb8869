package workspace

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"

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
	c.Flags().StringVar(&t.File, "ticket", "", "adopt the run or array of this `file` of bee run --ticket, by the key in BEE_TICKET_KEY")
	c.Flags().BoolVar(&t.machineLost, "machine-lost", false, "with --ticket: another machine has adopted the run or array, and is lost")
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

// Adopt has this installation control the run of a ticket, or the cases of its array, in the
// background.
func (s *Session) Adopt(ctx context.Context, t Ticket) ([]state.Run, error) {
	tickets, err := control.ReadTicket(t.File, TicketKey())
	if err != nil {
		return nil, err
	}
	f := s.Workspace.Foreign("the run of the ticket", "it is in "+t.File, t.trust)
	f.Sites = func([]string) ([]spec.Site, error) { return s.Workspace.LoadSites(&spec.Job{}) }
	runs, err := s.AdoptTickets(ctx, tickets, f, t.machineLost)
	unsent, nerr := s.unsent(ctx)
	var ids []string
	for _, run := range runs {
		if !run.State.Final() && !s.Store.Locks().Controlled(run.ID) || slices.Contains(unsent, run.ID) {
			ids = append(ids, run.ID)
		}
	}
	if berr := cmp.Or(nerr, s.Background(ids...)); err == nil {
		err = berr
	}
	if err != nil {
		return runs, err
	}
	if over, machine := control.OverBefore(tickets); over > 0 {
		s.Workspace.Say("%s of %d had ended before the ticket was made: machine %q has fetched the outputs", console.CountText(over, "case"), len(tickets), machine)
	}
	return runs, nil
}

// AdoptedText says of what a ticket had what is adopted, and returns the word that means it: an
// array or a run; "": all of it is over.
func AdoptedText(runs []state.Run) (what, word string) {
	if !slices.ContainsFunc(runs, func(r state.Run) bool { return !r.State.Final() }) {
		return "", ""
	}
	if array := runs[0].Case.Array; array != "" {
		return "array " + array, array
	}
	return "run " + runs[0].ID, runs[0].ID
}
