package benchcmd

import (
	"errors"
	"fmt"

	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// Command returns the command `bench`.
func (a *Commands) Command() *cobra.Command {
	c := &cobra.Command{
		Use: "bench", Short: "Measure what containers and virtual machines cost on this machine", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return a.listStudies(false) },
	}
	c.AddCommand(a.newBenchLsCommand(), a.newBenchShowCommand(), a.newBenchRunCommand(), a.newBenchResumeCommand(), a.newBenchReportCommand(), a.newBenchCheckCommand(), a.newBenchPlanCommand(), a.newBenchCompareCommand(), a.newBenchCalibrateCommand())
	return c
}

func (a *Commands) newBenchCheckCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "check FILE", Short: "Check a study file, and the job of every environment at every point", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := study.Load(args[0])
			if asJSON {
				return a.writeProblems(err)
			}
			if err != nil {
				return err
			}
			points, err := s.Points(c.Context(), "")
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(a.Stdout, "%s is valid: %s, %s in %s, compared with %s\n", args[0], s.Name,
				console.CountText(len(points), "point"), console.CountText(len(s.EnvironmentNames), "environment"), s.Baseline)
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// writeProblems writes the problems of a file as JSON. Any other error is returned.
func (a *Commands) writeProblems(err error) error {
	problems := []spec.Problem{}
	if all, ok := errors.AsType[*spec.Errors](err); ok {
		problems = all.Problems
	} else if err != nil {
		return err
	}
	if werr := a.WriteJSON(map[string]any{"valid": err == nil, "problems": problems}); werr != nil || err == nil {
		return werr
	}
	return console.Exit(console.ExitInvalid)
}
