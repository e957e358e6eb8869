package recordcmd

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/spf13/cobra"
)

// ShowCommand returns the command `show`.
func (a *Commands) ShowCommand() *cobra.Command {
	var asJSON, asCSV, beefile bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show what ran where, how long, and how it ended", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.RunsTo(state.ToSee),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.OpenQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.Close()
			if array, err := s.Store.Arrays().Find(c.Context(), args[0], state.ToSee); err != nil || array.ID != "" && !beefile {
				if err == nil {
					err = a.showArray(c.Context(), s, array, asJSON, asCSV)
				}
				return err
			}
			run, err := s.Store.FindRun(c.Context(), args[0], state.ToSee)
			if err == nil && asCSV {
				err = errNoCases(run.ID)
			}
			if err != nil {
				return err
			}
			if beefile {
				return a.printBeefile(run)
			}
			v, err := runview.Of(c.Context(), s, run)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.WriteJSON(v)
			} else {
				err = a.showRun(v)
			}
			if err != nil {
				return err
			}
			return s.WarnUnsupervised(c.Context(), func(id string) bool { return id == run.ID })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().BoolVar(&beefile, "beefile", false, "write the run's job as a Beefile")
	c.Flags().BoolVar(&asCSV, "csv", false, "write the cases of an array as CSV, with their values, states, times and metrics")
	c.MarkFlagsMutuallyExclusive("json", "beefile", "csv")
	return c
}

func (a *Commands) showRun(v runview.View) error {
	w := a.On(a.Stdout).Prose()
	WriteRun(w, v)
	return w.Flush()
}

// rows takes names with their values, in blocks with a gap between them.
type rows interface {
	Row(values ...any)
	Gap()
}

// WriteRun writes what there is to show of a run.
func WriteRun(w rows, v runview.View) {
	row := func(name, format string, args ...any) { w.Row(name, fmt.Sprintf(format, args...)) }
	row("run", "%s", v.ID)
	row("name", "%s", v.Name)
	w.Row("state", stateCell(v.State))
	if v.Pack != "" {
		w.Row("hosts of", "run "+v.Pack+", its pack")
	}
	if v.ExitCode != nil {
		row("exit code", "%d", *v.ExitCode)
	}
	showError(row, "", v.Error)
	showJob(row, v)
	showMeasured(row, v)
	if v.Use != nil {
		row("use", "%s", useText(v.Use))
	}
	row("created", "%s", v.Created.Local().Format(time.DateTime))
	if v.Ended != nil {
		row("ended", "%s (after %s)", v.Ended.Local().Format(time.DateTime), console.DurationText(v.Ended.Sub(v.Created)))
	}
	if text := spentText(v.Time); text != "" {
		row("time", "%s", text)
	}
	if v.Cost > 0 {
		row("cost", "%s", console.CostText(v.Cost, v.Currency))
	}
	for _, c := range v.Costs {
		row("cost", "%s", console.CostText(c.Amount, c.Currency))
	}
	if v.Volume != nil {
		w.Gap()
		row("volume", "a burst buffer, drained to %s", v.Volume.Remote)
		v.Volume.Rows(func(name, text string) { w.Row("  "+name, text) })
	}
	for _, at := range v.Attempts {
		w.Gap()
		row(fmt.Sprintf("attempt %d", at.Number), "site %s (%s), runtime %s", at.Site, at.Provider, console.OrDash(at.Runtime))
		if at.Why != "" {
			row("  chosen", "%s", at.Why)
		}
		if at.Cost > 0 {
			row("  cost", "%s", console.CostText(at.Cost, at.Currency))
		}
		row("  hosts", "%s%s", console.OrDash(strings.Join(at.Hosts, ", ")), rentedText(at))
		if at.ExitCode != nil {
			row("  exit code", "%d", *at.ExitCode)
		}
		if at.Error != nil && (v.Error == nil || *at.Error != *v.Error) { // the run's stands above
			showError(row, "  ", at.Error)
		}
		if at.Expected != nil && v.State == state.Queued {
			row("  expected", "to start at %s, as the site reckons now", at.Expected.Local().Format("2006-01-02 15:04"))
		}
		row("  phases", "%s", phasesText(at.Phases))
		if at.Starting != "" {
			row("  now", "%s", at.Starting)
		}
		if at.MarginSeconds > 0 {
			long := "" // or not known yet
			if at.SlotSeconds > 0 {
				long = console.Seconds(at.SlotSeconds) + "; "
			}
			row("  slot", "%sthe job is asked for its checkpoint %s before its end (%s)", long, console.Seconds(at.MarginSeconds), at.MarginReason)
		}
		if at.CheckpointSeconds > 0 {
			row("  checkpoint", "%s from the request until the nodes had ended, %s to transfer it", console.Seconds(at.CheckpointSeconds), console.Seconds(at.TransferSeconds))
		}
		for _, o := range at.Outputs {
			row("  outputs", "in %s: %s", o.To, workspace.ArrivedText(o))
		}
		for _, n := range at.Nodes {
			killed := ""
			if n.MemoryKills > 0 {
				killed = fmt.Sprintf(", killed for want of memory: %d", n.MemoryKills)
			}
			row(fmt.Sprintf("  node %d", n.Rank), "%s, %s, %d cores, cpu %.1f s user + %.1f s system, largest process %s%s",
				n.Host, console.OrDash(n.Runtime), n.Cores, n.UserSeconds, n.SystemSeconds, console.BytesText(n.LargestProcessRSS), killed)
			if n.MemoryUnlimited != "" {
				row("", "its memory was not limited: %s", output.Printable(n.MemoryUnlimited))
			}
		}
	}
	if len(v.Checkpoints) > 0 {
		w.Gap()
		row("checkpoints", "")
	}
	for _, c := range v.Checkpoints {
		row("  "+c.Taken.Local().Format(time.DateTime), "attempt %d on %s, %s, %s, kept in %s: %s", c.Attempt, console.OrDash(c.Site), console.CountText(c.Files, "file"), console.BytesText(c.Bytes),
			console.Seconds(c.Seconds), c.Path)
	}
	history := slices.DeleteFunc(slices.Clone(v.History), func(e report.Event) bool { return e.Kind == event.KindAttemptState }) // those are for programs
	if len(history) > 0 {
		w.Gap()
		row("history", "")
	}
	for _, n := range history {
		row("  "+n.Time.Local().Format(time.DateTime), "%s", n.Text)
	}
}

// rentedText returns how the machines of an attempt are rented, where that is more than usual.
func rentedText(at runview.Attempt) string {
	var words []string
	if at.Spot {
		words = append(words, "spot machines")
	}
	if at.Placement != "" {
		words = append(words, "placement "+at.Placement)
	}
	if len(words) == 0 {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

func showError(row func(string, string, ...any), indent string, e *console.ErrorView) {
	if e == nil {
		return
	}
	row(indent+"reason", "%s", e.Message)
	if e.Remedy != "" {
		row(indent+"remedy", "%s", e.Remedy)
	}
}

// phasesText lists the phases in the order in which they happen.
func phasesText(phases map[core.Phase]float64) string {
	order := core.Phases()
	rank := make(map[core.Phase]int, len(order))
	for i, p := range order {
		rank[p] = i
	}
	names := make([]core.Phase, 0, len(phases))
	for p := range phases {
		names = append(names, p)
	}
	sort.Slice(names, func(i, j int) bool { return rank[names[i]] < rank[names[j]] })
	parts := make([]string, len(names))
	for i, p := range names {
		parts[i] = fmt.Sprintf("%s %s", p, console.Seconds(phases[p]))
	}
	return console.OrDash(strings.Join(parts, ", "))
}
