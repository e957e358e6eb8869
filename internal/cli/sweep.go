package cli

import (
	"fmt"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/spf13/cobra"
)

func (a *app) newSweepCommand() *cobra.Command {
	var dry, asJSON bool
	c := &cobra.Command{Use: "sweep", Short: "Remove what no live run owns, from all sites", Args: cobra.NoArgs,
		Long: `Look on every site for what this installation of bee made (hosts, nodes,
directories) and no live run owns, and remove it. Every bee command takes over
runs whose controller died; sweep finds what even that could not.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.open(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			sites, _, err := a.findSites()
			if err != nil {
				return err
			}
			found, err := s.Sweep(c.Context(), sites, dry)
			if asJSON {
				if found == nil {
					found = []control.Swept{}
				}
				if jerr := a.writeJSON(found); jerr != nil {
					return jerr
				}
				return err
			}
			for _, f := range found {
				fmt.Fprintf(a.stdout, "%s\t%s\n", f.Site, f.Owner)
			}
			return err
		}}
	c.Flags().BoolVarP(&dry, "dry-run", "n", false, "only tell")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}
