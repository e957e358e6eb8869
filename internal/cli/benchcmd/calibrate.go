package benchcmd

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/spf13/cobra"
)

func (a *Commands) newBenchCalibrateCommand() *cobra.Command {
	o := benchOptions{verb: "calibrate", calibrate: true}
	c := &cobra.Command{
		Use: "calibrate [STUDY|FILE]", Short: "Find out what this machine can resolve, and in what time", Args: cobra.MaximumNArgs(1), ValidArgsFunction: completeStudies,
		Long: `Measure one environment against itself, and say which differences this machine can
resolve, and in what time. Without an argument, it measures the study layers.`,
		Example: "  bee bench calibrate layers --env rootless --size smoke",
		RunE: func(c *cobra.Command, args []string) error {
			s, text, err := o.study(args)
			if err != nil {
				return err
			}
			if len(o.env) > 1 {
				return &core.Error{Kind: core.Invalid, Op: "calibrate by", Object: strings.Join(o.env, ", "), Err: errors.New("one environment is measured against itself"), Remedy: "Name one by --env."}
			}
			if len(o.env) == 1 {
				s.Baseline = o.env[0]
			}
			o.env = []string{s.Baseline}
			s.EnvironmentNames = slices.DeleteFunc(s.EnvironmentNames, func(e string) bool { return e != s.Baseline })
			return a.benchRun(c.Context(), s, text, o)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&o.env, "env", nil, "`environment` to measure (default: the study's baseline)")
	f.StringVar(&o.site, "site", "", "`site` to measure on (default: the first)")
	f.StringToStringVar(&o.source, "source", nil, sourceHelp)
	f.StringVar(&o.size, "size", "", "`size` of values of variables: paper, here or smoke")
	f.StringVar(&o.margin, "margin", "", "`difference` that does not matter, such as 5%, instead of the study's")
	f.StringVar(&o.blocks, "blocks", "10", "`number` of blocks")
	f.DurationVar(&o.budget, "budget", 0, "most time to measure, instead of the study's")
	f.StringVarP(&o.out, "output", "o", "", "`directory` of the results (default bench-STUDY-DATE)")
	f.BoolVar(&o.asJSON, "json", false, "write JSON")
	f.DurationVar(&o.quiet, "wait", quietWait, "most `time` to wait until this machine is quiet, such as 0s")
	workspace.WordsFlag(c, "size", sizes...)
	o.trust.Flag(f, "the study")
	return c
}

// printResolution prints what the machine resolves.
func (a *Commands) printResolution(p *record.Plan, rows []record.Row, asJSON bool) error {
	all := evaluate.Resolutions(p, rows)
	if asJSON {
		return a.WriteJSON(map[string]any{"environment": p.Baseline, "taken": time.Now().UTC(), "machine": p.Machine, "figures": all})
	}
	var b strings.Builder
	for _, s := range evaluate.ResolutionSentences(p, all) {
		b.WriteString(output.Printable(s) + "\n")
	}
	_, err := a.Stdout.Write([]byte(b.String()))
	return err
}
