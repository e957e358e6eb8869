package stopcmd

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// SweepCommand returns the command `sweep`.
func (a *Commands) SweepCommand() *cobra.Command {
	var (
		asJSON bool
		how    control.Sweeping
		stores []string
	)
	c := &cobra.Command{
		Use: "sweep", Short: "Remove leftovers of ended runs from all sites and stores", Args: cobra.NoArgs,
		Long: `Search every site for hosts, nodes and directories that this installation of bee
made and no live run owns, and remove them. Search stores for checkpoints of runs
without a record, and this machine for directories of such runs (home). Remove
parts of objects that a controller which died has sent to buckets, and parts of
images that bee cloud image push has left at clouds. bee supervise continues runs
whose controller died; sweep finds the rest.

Burst buffers that an attempt has left on a site are removed once their remote has
everything. Others are kept, whatever flags are given: sweep has them drained again.

Things that no record explains, and that bee rm did not leave, are listed with the
reason and kept, unless --force is given. A run whose record is lost, but has a
copy beside its files, is taken over.`,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := a.Open(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			sites, err := a.FindSites()
			if err != nil {
				return err
			}
			if sites.Store != "" && sites.Store != spec.StoreHome {
				stores = append(stores, sites.Store)
			}
			found, err := s.Garbage().Sweep(c.Context(), sites.Sites, stores, how)
			if !how.Dry {
				err = errors.Join(err, s.Store.Binaries().Prune(c.Context()))
			}
			if asJSON {
				if found == nil {
					found = []control.Swept{}
				}
				if jerr := a.WriteJSON(found); jerr != nil {
					return jerr
				}
				return err
			}
			for _, f := range found {
				line := f.Site + "\t" + f.Owner
				if f.Buffer != "" {
					line += "\tburst buffer " + f.Buffer
				}
				if f.Image != "" {
					line += "\tpart of image " + f.Image
				}
				if f.Kept != "" {
					line += "\tkept: " + f.Kept
				}
				if _, werr := fmt.Fprintln(a.Stdout, output.Printable(line)); werr != nil {
					return errors.Join(err, werr)
				}
			}
			if len(found) == 0 && err == nil {
				a.Say("nothing is left behind")
			}
			return err
		},
	}
	c.Flags().BoolVarP(&how.Dry, "dry-run", "n", false, "only print")
	c.Flags().BoolVarP(&how.Force, "force", "f", false, "also remove things without explanation, and checkpoints left by bee rm --leave-store; they may be the only copy")
	c.Flags().StringSliceVar(&stores, "store", nil, "`store` to look in, besides that of the sites file and those of recorded runs")
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}
