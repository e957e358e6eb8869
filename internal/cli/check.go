package cli

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

func (a *app) newCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check BEEFILE", Short: "Check a Beefile, the sites and the local files that it names, without running it", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			draft, err := spec.ReadDraft(args[0])
			if err != nil {
				return err
			}
			draft.CheckHere()
			job, sites, err := a.finish(draft)
			if err == nil {
				err = volumeHere(job)
			}
			if asJSON {
				problems := []spec.Problem{}
				if all, ok := errors.AsType[*spec.Errors](err); ok {
					problems = all.Problems
				} else if err != nil {
					return err
				}
				if werr := a.writeJSON(map[string]any{"valid": err == nil, "problems": problems}); werr != nil || err == nil {
					return werr
				}
				return exitError{exitInvalid}
			}
			if err != nil {
				return err
			}
			a.warnOfLoss(job)
			_, err = fmt.Fprintf(a.stdout, "%s is valid: %s, %s on %s\n", args[0], job.Name, countText(job.Nodes, "node"), siteNames(sites))
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// warnOfLoss tells who seems to have files written, and has forgotten to say which
// come home.
func (a *app) warnOfLoss(job *spec.Job) {
	if len(job.Outputs) == 0 && (job.Workdir != "" || len(job.Inputs) > 0 || job.Checkpoint != nil) {
		fmt.Fprintln(a.stderr, "bee: warning: what the job writes is gone when it ends: it has no `outputs:`, which name what to bring home")
	}
}
