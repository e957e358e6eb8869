package workspace

import (
	"context"
	"fmt"
	"os"

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
	c.Flags().StringVar(&t.File, "ticket", "", "adopt the run of this `file` of bee run --ticket, by the key in BEE_TICKET_KEY")
	c.Flags().BoolVar(&t.machineLost, "machine-lost", false, "with --ticket: another machine has adopted the run, and is lost")
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

// Adopt has this installation control the run of a ticket, in the background.
func (s *Session) Adopt(ctx context.Context, t Ticket) (state.Run, error) {
	ticket, err := control.ReadTicket(t.File, TicketKey())
	if err != nil {
		return state.Run{}, err
	}
	f := s.Workspace.Foreign("the run of the ticket", "it is in "+t.File, t.trust)
	f.Sites = func([]string) ([]spec.Site, error) { return s.Workspace.LoadSites(&spec.Job{}) }
	run, err := s.AdoptTicket(ctx, ticket, f, t.machineLost)
	if err != nil || run.State.Final() || s.Store.Locks().Controlled(run.ID) {
		return run, err
	}
	return run, s.Background(run.ID)
}
