package benchcmd

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchCompareCommand() *cobra.Command {
	var asJSON, different, undecided bool
	var failOn []string
	c := &cobra.Command{
		Use: "compare DIR DIR...", Short: "Compare results of other dates, machines or versions of bee", Args: cobra.MinimumNArgs(2),
		Long: `Compare the first results with each of the others. Results of one machine are compared
by their values, and whatever changed between the dates is included. Results of other
machines are compared by the ratios to their own baselines. Studies and images have to be
the same, unless --allow-different is given.`,
		Example: "  bee bench compare bench-layers-20261101-090000 bench-layers-20261126-101500",
		RunE: func(_ *cobra.Command, args []string) error {
			for _, word := range failOn {
				if word != "slower" {
					return &core.Error{Kind: core.Invalid, Op: "read", Object: "--fail-on " + word, Err: errors.New("it is not slower"), Remedy: "Write `--fail-on slower`."}
				}
			}
			var all []evaluate.Series
			for _, dir := range args {
				s, err := former(dir)
				if err != nil {
					return err
				}
				all = append(all, s)
			}
			var found []evaluate.Comparison
			for _, to := range all[1:] {
				c := evaluate.Compare(all[0], to)
				if len(c.Differences) > 0 && !different {
					return differ(&c, "--allow-different compares them anyway.")
				}
				found = append(found, c)
			}
			if err := a.printComparisons(found, asJSON); err != nil {
				return err
			}
			if len(failOn) == 0 {
				return nil
			}
			return comparisonGate(found, undecided)
		},
	}
	f := c.Flags()
	f.BoolVar(&different, "allow-different", false, "compare results of different studies or images, too")
	f.StringSliceVar(&failOn, "fail-on", nil, "`results` that count as failures: end with code 208 for slower, and with 209 if undecided")
	f.BoolVar(&undecided, "allow-undecided", false, "with --fail-on: end with 0 if undecided")
	f.BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// differ is the error for series that have measured different things.
func differ(c *evaluate.Comparison, remedy string) error {
	return &core.Error{Kind: core.Invalid, Op: "compare", Object: c.From + " and " + c.To, Err: errors.New(strings.Join(c.Differences, "; ")), Remedy: remedy}
}

// comparisonGate is the exit code of comparisons with --fail-on slower.
func comparisonGate(all []evaluate.Comparison, allowUndecided bool) error {
	undecided := false
	for i := range all {
		if all[i].Worse() {
			return console.Exit(console.ExitSlower)
		}
		undecided = undecided || !all[i].Decided()
	}
	if undecided && !allowUndecided {
		return console.Exit(console.ExitUndecided)
	}
	return nil
}

// former reads results to compare others with.
func former(dir string) (evaluate.Series, error) {
	p, rows, err := record.Read(dir)
	return evaluate.Series{Name: filepath.Base(filepath.Clean(dir)), Plan: p, Rows: rows}, err
}

func (a *Commands) printComparisons(all []evaluate.Comparison, asJSON bool) error {
	if asJSON {
		return a.WriteJSON(all)
	}
	var b strings.Builder
	for i := range all {
		c := &all[i]
		fmt.Fprintf(&b, "%s to %s\n", output.Printable(c.From), output.Printable(c.To))
		w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "FIGURE\tENVIRONMENT\tFROM\tTO\tVERDICT")
		for _, x := range c.Changes {
			if !x.Primary {
				continue
			}
			name := x.Metric
			if x.Point != "" {
				name += " at " + x.Point
			}
			fmt.Fprintf(w, "%s\t%s\t%.4g %s\t%.4g %s\t%s\n", output.Printable(name), output.Printable(x.Environment), x.FromMedian, output.Printable(x.Unit), x.ToMedian, output.Printable(x.Unit), x.Verdict)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		for _, s := range c.Sentences() {
			b.WriteString(output.Printable(s) + "\n")
		}
	}
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}
