package recordcmd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

// comparison is two runs side by side, as --json gives them.
type comparison struct {
	// Runs are as `bee show --json` has them.
	Runs [2]runview.View `json:"runs"`
	// Job is the keys of the Beefile that differ, with their values as JSON.
	Job []report.Pair `json:"job"`

	results []report.Pair
}

// CompareCommand returns the command `compare`.
func (a *Commands) CompareCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "compare RUN RUN", Short: "Show how two runs differ", Args: cobra.ExactArgs(2), ValidArgsFunction: a.RunsTo(state.ToSee),
		Long: `Show two runs side by side. First are the keys of their jobs that differ. Below them
are state, attempts, sites, where the time went, cost and the newest metrics of each.`,
		Example: "  bee compare lysozyme lysozyme-2",
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.OpenQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			both, err := compare(c.Context(), s, [2]string{args[0], args[1]})
			if err != nil {
				return err
			}
			if asJSON {
				return a.WriteJSON(both)
			}
			return a.showComparison(both)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

// compare reads two runs, which are named by words of the user.
func compare(ctx context.Context, s *workspace.Session, words [2]string) (comparison, error) {
	both := comparison{Job: []report.Pair{}}
	var jobs, results [2][]report.Fact
	for i, word := range words {
		run, err := s.Store.FindRun(ctx, word, state.ToSee)
		if err != nil {
			return both, err
		}
		if both.Runs[i], err = runview.Of(ctx, s, run); err != nil {
			return both, err
		}
		if jobs[i], err = jobFacts(run); err != nil {
			return both, err
		}
		results[i] = resultFacts(&both.Runs[i])
	}
	for _, pair := range report.Pairs(jobs[0], jobs[1]) {
		if pair.Differs() {
			both.Job = append(both.Job, pair)
		}
	}
	both.results = report.Pairs(results[0], results[1])
	return both, nil
}

// jobFacts are the keys of a run's job, and the digest of its image.
func jobFacts(run state.Run) ([]report.Fact, error) {
	sub, err := submission.Of(run)
	if err != nil {
		return nil, err
	}
	keys, err := sub.Job.Keys()
	if err != nil {
		return nil, err
	}
	facts := []report.Fact{{Name: "(digest)", Value: run.Image}}
	for _, key := range keys {
		facts = append(facts, report.Fact{Name: key.Name, Value: key.Value})
	}
	return facts, nil
}

// resultFacts are what became of a run.
func resultFacts(v *runview.View) []report.Fact {
	var facts []report.Fact
	add := func(name, value string) { facts = append(facts, report.Fact{Name: name, Value: value}) }
	add("state", string(v.State))
	if v.ExitCode != nil {
		add("exit code", strconv.Itoa(*v.ExitCode))
	}
	if v.Error != nil {
		add("reason", v.Error.Message)
	}
	add("attempts", strconv.Itoa(len(v.Attempts)))
	var sites []string
	phases := map[core.Phase]float64{}
	for _, at := range v.Attempts {
		if !slices.Contains(sites, at.Site) {
			sites = append(sites, at.Site)
		}
		for phase, seconds := range at.Phases {
			phases[phase] += seconds
		}
	}
	add("sites", strings.Join(sites, ", "))
	if v.Ended != nil {
		add("from submission to end", console.DurationText(v.Ended.Sub(v.Created)))
	}
	for _, use := range report.Uses() {
		if seconds := v.Time[use.On]; seconds >= 0.001 {
			add("time: "+use.Text, console.Seconds(seconds))
		}
	}
	for _, phase := range core.Phases() {
		if seconds, is := phases[phase]; is {
			add("phase: "+string(phase), console.Seconds(seconds))
		}
	}
	for _, c := range v.Costs {
		add("cost in "+c.Currency, console.CostText(c.Amount, c.Currency))
	}
	if v.Cost > 0 {
		add("cost", console.CostText(v.Cost, v.Currency))
	}
	for _, name := range slices.Sorted(maps.Keys(v.Metrics)) {
		add("metric: "+name, numberText(v.Metrics[name].Value))
	}
	return facts
}

// showComparison prints two runs side by side.
func (a *Commands) showComparison(both comparison) error {
	w := a.On(a.Stdout).List()
	w.Row("", fmt.Sprintf("%s (%s)", both.Runs[0].Name, both.Runs[0].ID), fmt.Sprintf("%s (%s)", both.Runs[1].Name, both.Runs[1].ID))
	if len(both.Job) == 0 {
		w.Row("job", "the same", "the same")
	}
	for _, pairs := range [][]report.Pair{both.Job, both.results} {
		for _, p := range pairs {
			w.Row(p.Name, console.OrDash(p.Values[0]), console.OrDash(p.Values[1]))
		}
	}
	return w.Flush()
}
