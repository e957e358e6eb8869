package cli

import "github.com/spf13/cobra"

// newVMCommand is the command `vm`, whose commands are of the rooms that images, nodes and
// runs have.
func newVMCommand(commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: "vm", Short: "Inspect virtual machines, and build guest images", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(commands...)
	return c
}
