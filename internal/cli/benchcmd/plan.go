package benchcmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchPlanCommand() *cobra.Command {
	var o benchOptions
	c := &cobra.Command{
		Use: "plan [STUDY|FILE]", Short: "Show what a study would measure here, and what does not work", Args: cobra.MaximumNArgs(1),
		Long: `Show what a study would measure on this machine: its environments with the reason for
those that do not work, the points, the number of measurements and the looks. Each
environment is tried by the command "true".`,
		Example: "  bee bench plan layers\n  bee bench plan layers --env rootless,docker\n  bee bench plan --job job.yaml",
		RunE: func(c *cobra.Command, args []string) error {
			s, text, err := o.study(args)
			if err != nil {
				return err
			}
			session, err := a.OpenQuietly(c.Context())
			if err != nil {
				return err
			}
			defer session.Close()
			b := a.newBench(session, s, o)
			defer b.end()
			o.calibrate = true // what is left may be the baseline alone
			p, err := a.resolve(c.Context(), s, text, o, b, session.Images)
			if err != nil {
				return err
			}
			b.hint()
			if o.asJSON {
				return a.WriteJSON(p)
			}
			_, err = a.Stdout.Write([]byte(planText(&p)))
			return err
		},
	}
	f := c.Flags()
	o.choice(f)
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	o.trust.Flag(f, "the study")
	return c
}

// planText is a plan for people.
func planText(p *record.Plan) string {
	var b strings.Builder
	works := 0
	for _, e := range p.Environments {
		switch {
		case e.Dropped != "":
			fmt.Fprintf(&b, "%s is left out: %s. %s\n", e.Name, strings.TrimSuffix(output.Printable(e.Dropped), "."), output.Printable(e.Remedy))
		case e.Name == p.Baseline:
			fmt.Fprintf(&b, "%s works, and is the baseline\n", e.Name)
			works++
		case e.Emulated:
			fmt.Fprintf(&b, "%s works, with an emulated processor: its claims are not judged\n", e.Name)
			works++
		default:
			fmt.Fprintf(&b, "%s works\n", e.Name)
			works++
		}
	}
	b.WriteString(aheadText(p) + "\n")
	if len(p.Claims) > 0 {
		fmt.Fprintf(&b, "%s are judged\n", console.CountText(len(p.Claims), "claim"))
	}
	return b.String()
}

// aheadText is how much a plan measures at most, and from when on there are verdicts.
func aheadText(p *record.Plan) string {
	family := evaluate.Family(p)
	turns := 0
	for _, point := range p.Points {
		turns++ // the baseline again
		for _, e := range p.Environments {
			if e.Dropped == "" && slices.Contains(point.Environments, e.Name) {
				turns++
			}
		}
	}
	text := fmt.Sprintf("%s, %s each block, up to %s", console.CountText(len(p.Points), "point"), console.CountText(turns, "measurement"), console.CountText(p.Most, "block"))
	if p.BudgetSeconds > 0 {
		text += fmt.Sprintf(" within %s", time.Duration(p.BudgetSeconds*float64(time.Second)))
	}
	first := max(stats.Looks(p.Least, p.Most, family)[0], stats.LeastBlocks(family))
	switch {
	case family == 0:
		return text + "; nothing gets a verdict"
	case first > p.Most:
		return text + fmt.Sprintf("; no verdict, as those on %s take %s", console.CountText(family, "primary figure"), console.CountText(first, "block"))
	}
	return text + fmt.Sprintf("; verdicts on %s from block %d on", console.CountText(family, "primary figure"), first)
}
