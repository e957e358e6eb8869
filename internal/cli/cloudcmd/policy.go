package cloudcmd

import (
	"github.com/bee-hpc/bee/internal/catalog"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/spf13/cobra"
)

// policyCommand returns the command `cloud policy`.
func (a *Commands) policyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "policy", Short: "Print the policy that credentials of AWS need, as JSON", Args: cobra.NoArgs,
		Long: `Print the least policy of AWS that credentials for bee need. It has the calls that
bee makes, and no others.`,
		RunE: func(*cobra.Command, []string) error { return a.WriteJSON(catalog.Policy()) },
	}
	c.Flags().Bool("json", true, console.JSONHelp+", which it always does")
	return c
}
