package runcmd

import (
	"errors"

	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// RetryCommand returns the command `retry`.
func (a *Commands) RetryCommand() *cobra.Command {
	o := runOptions{cases: casesFailed, pull: "missing"}
	c := &cobra.Command{
		Use: "retry ARRAY", Short: "Run the cases of an array again that did not succeed", Args: cobra.ExactArgs(1),
		Long: `Run those cases of an array again that have ended and did not succeed, in a new
array of the same name, as they were then. Cases that are not over continue. A case
that has succeeded is not run again.`,
		Example:           "  bee retry model\n  bee retry -d model --site rack --time 4h",
		ValidArgsFunction: a.RunsTo(state.ToSee),
		RunE: func(c *cobra.Command, args []string) error {
			o.given, o.again = c.Flags().Changed, args[0]
			from, err := a.jobToRun(c, nil, o.again)
			if err == nil && len(from.cases) == 0 {
				err = &core.Error{Kind: core.Invalid, Op: "retry", Object: args[0], Err: errors.New("it is a run, and no array"), Remedy: "`bee run --again " + args[0] + "` repeats it."}
			}
			if err != nil {
				return a.inJSON(o, err)
			}
			return a.inJSON(o, a.run(c.Context(), from, o))
		},
	}
	f := c.Flags()
	f.BoolVarP(&o.detach, "detach", "d", false, "print the array's id and continue in the background")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "print nothing about the cases")
	f.BoolVar(&o.asJSON, "json", false, "write the array as JSON at the end")
	f.StringSliceVar(&o.site, "site", nil, "`sites` to use instead of those of the cases, in order")
	a.SiteFlag(c)
	o.resourceFlags(f)
	o.trust.Flag(f, "the Beefile")
	return c
}
