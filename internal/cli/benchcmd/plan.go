package benchcmd

import (
	"fmt"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/bench/study"
	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchPlanCommand() *cobra.Command {
	o := benchOptions{verb: "plan"}
	c := &cobra.Command{
		Use: "plan [STUDY|FILE]", Short: "Show what a study would measure here, and what does not work", Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeStudies,
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
	o.choice(c)
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	o.trust.Flag(f, "the study")
	return c
}

// planText is a plan for people.
func planText(p *record.Plan) string {
	var b strings.Builder
	for _, e := range p.Environments {
		more := hourText(e)
		if e.Untested {
			more = "; the authors of the study have never measured it" + more
		}
		if e.Untried != "" {
			more = "; bee was never tried with " + output.Printable(e.Untried) + more
		}
		switch {
		case e.Dropped != "":
			fmt.Fprintf(&b, "%s is left out: %s. %s\n", e.Name, strings.TrimSuffix(output.Printable(e.Dropped), "."), output.Printable(e.Remedy))
		case e.Name == p.Baseline:
			fmt.Fprintf(&b, "%s works, and is the baseline%s\n", e.Name, more)
		case e.Emulated:
			fmt.Fprintf(&b, "%s works, with an emulated processor: its claims are not judged%s\n", e.Name, more)
		default:
			fmt.Fprintf(&b, "%s works%s\n", e.Name, more)
		}
	}
	b.WriteString(aheadText(p) + "\n" + orderText(p) + "\n")
	if starts := startSeconds(p); starts > 0 {
		fmt.Fprintf(&b, "the starts of a block take %s, and those of all blocks %s; how long the jobs take is known after the first block\n", rounded(starts), rounded(starts*float64(p.Most+1)))
	}
	b.WriteString(costText(p))
	if len(p.Claims) > 0 {
		fmt.Fprintf(&b, "%s are judged\n", console.CountText(len(p.Claims), "claim"))
	}
	return b.String()
}

// hourText is what an environment's hosts cost, or "".
func hourText(e record.Environment) string {
	if e.HourPrice == 0 {
		return ""
	}
	return fmt.Sprintf("; its hosts cost %s an hour", console.CostText(e.HourPrice, e.Currency))
}

// orderText is in which order a plan measures.
func orderText(p *record.Plan) string {
	text := "each block in a random order of its own"
	switch p.Method {
	case study.Beserra:
		return "all measurements of an environment, then those of the next"
	case study.Published:
		text = "each block in the order of the environments"
	}
	if p.Reuse != "" {
		text += "; in an environment, points that differ in their commands alone share a container or guest"
	}
	return text
}

func rounded(seconds float64) time.Duration {
	d := time.Duration(seconds * float64(time.Second))
	if d < time.Minute {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}

// startSeconds is the time in which the environments of a block start, as they did when they
// were tried.
func startSeconds(p *record.Plan) (seconds float64) {
	for i := range p.Environments {
		e := &p.Environments[i]
		seconds += e.TrialSeconds * float64(p.Starts(e))
	}
	return seconds
}

// aheadText is how much a plan measures at most, and from when on there are verdicts.
func aheadText(p *record.Plan) string {
	family := evaluate.Family(p)
	turns := 0
	for _, point := range p.Points {
		turns++ // the baseline again
		turns += len(p.Measured(point))
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
