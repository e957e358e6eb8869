package runcmd

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/driver"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/spf13/cobra"
)

// PlanCommand returns the command `plan`.
func (a *Commands) PlanCommand() *cobra.Command {
	var (
		o      runOptions
		asJSON bool
	)
	c := &cobra.Command{
		Use: "plan BEEFILE|IMAGE", Short: "Show where a job would run, and why, without running it", Args: cobra.ExactArgs(1),
		Long: `Ask every site what it would do with a job submitted now. Show whether it can
take the job and when it would start it. Show the time that its slot leaves to
compute, and the price of an hour. Try the store of its checkpoints. Sites are listed in the
order in which a run would try them. Nothing is submitted. A Beefile of several jobs is
shown job by job.

For a volume of kind burst, a few files are sent to its remote and removed, and the
command predicts whether the buffer pays.`,
		RunE: func(c *cobra.Command, args []string) error {
			o.given = c.Flags().Changed
			from, err := a.jobOf(c, args)
			if err != nil {
				return err
			}
			return a.plan(c.Context(), from, o, asJSON)
		},
	}
	c.Flags().StringSliceVar(&o.site, "site", nil, "`sites` to ask instead of the Beefile's, in order")
	a.SiteFlag(c)
	o.trust.Flag(c.Flags(), "the Beefile")
	c.Flags().IntVarP(&o.nodes, "nodes", "n", 0, "`number` of nodes instead of the Beefile's")
	o.resourceFlags(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return c
}

func (a *Commands) plan(ctx context.Context, from jobSource, o runOptions, asJSON bool) error {
	o.pull = "missing"
	finished, err := a.finishAll(from, o)
	if err == nil {
		var reaches reachList
		for _, f := range finished {
			reaches.add(f.reaches)
		}
		err = a.Allow(from.what, from.strange, reaches.list, o.trust, o.quiet)
	}
	if err != nil {
		return err
	}
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var all []plannedJob
	var failed error
	for i, f := range finished {
		sub, err := f.submission(a, o)
		if err != nil {
			return err
		}
		if len(from.jobs) > 0 && !asJSON {
			if _, err := fmt.Fprintf(a.Stdout, "%s%s%s\n", strings.Repeat("\n", min(i, 1)), output.Printable(sub.Job.Name), afterText(&sub.Job)); err != nil {
				return err
			}
		}
		if !asJSON {
			if err := explainInputs(ctx, a.Stdout, s, &sub.Job, from.jobs); err != nil {
				return err
			}
		}
		sites, err := planJob(ctx, a, s, sub, asJSON)
		all = append(all, plannedJob{sub.Job.Name, sites})
		failed = cmp.Or(failed, err)
	}
	if asJSON {
		var view any = all
		if len(from.jobs) == 0 {
			view = all[0].Sites
		}
		if err := a.WriteJSON(view); err != nil {
			return err
		}
	}
	return failed
}

// afterText is what a job waits for.
func afterText(job *spec.Job) string {
	if len(job.After) == 0 {
		return ""
	}
	words := make([]string, len(job.After))
	for i, after := range job.After {
		words[i] = output.Printable(after.Run)
		if after.On != "" && after.On != spec.AfterSuccess {
			words[i] += " (" + after.On + ")"
		}
	}
	return ", after " + strings.Join(words, ", ")
}

// planJob shows what each site would do with a job, and returns that.
func planJob(ctx context.Context, a *Commands, s *workspace.Session, sub submission.Submission, asJSON bool) ([]plannedSite, error) {
	doubts, wrong := a.checkLaunch(ctx, &sub.Job)
	if !asJSON {
		a.warn(ctx, &sub.Job, sub.Sites, sub.Own)
		a.warnOf(doubts)
	}
	list := s.Prospects(ctx, sub)
	usable := slices.IndexFunc(list, func(p control.Prospect) bool { return p.Usable })
	var v *burstVerdict
	measured := func() (err error) {
		if usable >= 0 && sub.Job.Volume.Kind == spec.VolumeBurst {
			if v, err = measuredVerdict(ctx, a.Workspace, &sub.Job, list[usable].CostPerHour); v != nil && v.Prediction != nil {
				v.Prediction.Currency = list[usable].Currency
			}
		}
		return err
	}
	var err error
	if asJSON {
		err = measured()
	} else {
		err = explain(a.Stdout, list)
	}
	if err == nil {
		err = s.TryStore(ctx, sub)
	}
	if err == nil && !asJSON {
		if err = measured(); v != nil {
			_, err = fmt.Fprintf(a.Stdout, "\n%s", v.text())
		}
	}
	if err == nil {
		err = wrong
	}
	if err == nil && usable < 0 {
		err = console.Exit(console.ExitUnsupported)
	}
	return planned(list, usable, v), err
}

// plannedJob is what the sites would do with one of several jobs, as --json prints it.
type plannedJob struct {
	Job   string        `json:"job"`
	Sites []plannedSite `json:"sites"`
}

// plannedSite is what a site would do, as --json prints it.
type plannedSite struct {
	control.Prospect
	// BurstBuffer is whether the job's burst buffer pays, at the site that the run would use first.
	BurstBuffer *burstVerdict `json:"burst_buffer,omitempty"`
}

// planned gives the sites as --json prints them; v is the verdict for that of a number.
func planned(list []control.Prospect, number int, v *burstVerdict) []plannedSite {
	sites := make([]plannedSite, len(list))
	for i, p := range list {
		sites[i].Prospect = p
		if i == number {
			sites[i].BurstBuffer = v
		}
	}
	return sites
}

// explain lists what each site would do, and which is the first to be tried. Why
// one cannot take the job stands below, where there is room for it; columns of
// which no site has anything are left out.
func explain(out io.Writer, list []control.Prospect) error {
	slots := slices.ContainsFunc(list, func(p control.Prospect) bool { return p.SlotSeconds > 0 })
	prices := slices.ContainsFunc(list, func(p control.Prospect) bool { return p.CostPerHour > 0 })
	w := output.On(out, output.Auto).List()
	row := func(site, what, start, slot, compute, cost, remark string) {
		cells := []any{site, what, start}
		if slots {
			cells = append(cells, slot, compute)
		}
		if prices {
			cells = append(cells, cost)
		}
		w.Row(append(cells, remark)...)
	}
	row("SITE", "WHAT", "START", "SLOT", "COMPUTE", "COST/H", "")
	chosen := false
	for _, p := range list {
		slot, compute, cost, remark := "-", "-", "-", ""
		if p.SlotSeconds > 0 {
			slot, compute = spec.ShortDuration(console.Seconds(p.SlotSeconds)), spec.ShortDuration(console.Seconds(p.ComputeSeconds))
		}
		if p.CostPerHour > 0 {
			cost = console.CostText(p.CostPerHour, p.Currency)
		}
		switch {
		case !p.Usable:
			remark = "cannot"
		case !chosen && tooLate(p):
			remark = "left after " + console.Seconds(p.WaitSeconds)
		case !chosen:
			chosen, remark = true, "runs here"
		}
		row(p.Site, p.Summary, startText(p), slot, compute, cost, remark)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	var below strings.Builder
	for _, p := range list {
		if p.Usable {
			continue
		}
		fmt.Fprintf(&below, "\n%s cannot take it: %s\n", p.Site, output.Printable(strings.TrimPrefix(p.Reason, "use site "+p.Site+": ")))
		if p.Remedy != "" {
			fmt.Fprintf(&below, "  → %s\n", output.Printable(p.Remedy))
		}
	}
	for _, p := range list {
		if p.StartReason != "" && p.Usable {
			fmt.Fprintf(&below, "\n%s does not start it at once: %s\n", p.Site, output.Printable(p.StartReason))
		}
		if p.Attended && p.Usable {
			fmt.Fprintf(&below, "\n%s\n", attendedText("The", p.Site))
		}
		if p.CostPerSlot > 0 && p.Usable {
			fmt.Fprintf(&below, "\nA whole slot on %s costs %s (%s).\n", p.Site, console.CostText(p.CostPerSlot, p.Currency), spec.ShortDuration(console.Seconds(p.SlotSeconds)))
		}
		if text := priceText(p, time.Now()); text != "" && p.Usable {
			fmt.Fprintf(&below, "\n%s\n", text)
		}
		if text := placementText(p); text != "" && p.Usable {
			fmt.Fprintf(&below, "\n%s\n", text)
		}
		if p.NoticeSeconds > 0 && p.Usable {
			fmt.Fprintf(&below, "\nWhere %s takes the hosts back early, a checkpoint may take longer (`grace`)\nthan the job then has; `checkpoint: {every: …}` keeps copies meanwhile. It is killed\n%s", p.Site, noticeText(p))
		}
		if p.SpotLosses > 0 && p.Usable {
			fmt.Fprintf(&below, "\nAfter %d attempts on spot machines in a row without progress, %s rents machines on demand.\n", p.SpotLosses, p.Site)
		}
		if p.NoCheckpoint && p.Usable {
			fmt.Fprintf(&below, "\nThe job has no `checkpoint:` (docs/how-to/checkpoints.md): on %s it is ended, and the run fails, if it is not\ndone in %s.\n", p.Site, console.Seconds(p.ComputeSeconds))
		}
		if p.MarginReason != "" {
			fmt.Fprintf(&below, "\n%s before its slot ends the job is asked for its checkpoint (%s);\nearlier, once a checkpoint has taken longer to write and transfer.\n", console.Seconds(p.MarginSeconds), p.MarginReason)
			break
		}
	}
	_, err := io.WriteString(out, below.String())
	return err
}

// attendedText says what it depends on that sites with a queue start a job with secrets.
func attendedText(the, sites string) string {
	return the + " job has `secrets:`, which are written to no disk: when its turn comes in the queue of " + sites +
		", this machine has to be on and to reach it. If it is not, the nodes are given back soon, and asked for again once it is."
}

// priceText returns the source and the age of a price that the user has not written.
func priceText(p control.Prospect, now time.Time) string {
	list := map[driver.PriceSource]string{driver.PriceOfList: "price list", driver.PriceOfSpot: "market of spot machines"}[p.PriceSource]
	switch {
	case p.NoPrice != "":
		return fmt.Sprintf("The price of %s is not known: %s\n  → Write `price:` at the site: what a host costs in an hour.", p.Site, output.Printable(p.NoPrice))
	case list == "":
		return ""
	}
	return fmt.Sprintf("The price of %s is of the cloud's %s, asked %s ago; `price:` at the site replaces it.", p.Site, list, console.DurationText(now.Sub(p.PriceAsked).Round(time.Second)))
}

// placementText returns how a site places the hosts of the job among its own.
func placementText(p control.Prospect) string {
	how := map[string]string{"cluster": "close together", "spread": "on hosts that they do not share"}[p.Placement]
	switch {
	case how == "":
		return ""
	case p.PlacementRequired:
		return fmt.Sprintf("%s places the machines %s, or rents none (`placement: {%s: required}`).", p.Site, how, p.Placement)
	}
	return fmt.Sprintf("%s places the machines %s (`placement: %s`). Where it has no room for that, they are rented without.", p.Site, how, p.Placement)
}

// noticeText is how long a job has that is ended early.
func noticeText(p control.Prospect) string {
	text := "  " + console.Seconds(p.NoticeSeconds) + " later if it is cancelled\n"
	if p.PreemptedSeconds > 0 {
		text += "  " + console.Seconds(p.PreemptedSeconds) + " later if it has to make way for one that comes first (preemption)\n"
	}
	return text
}

// tooLate means that a run will have left the site's queue before its turn comes.
func tooLate(p control.Prospect) bool {
	return p.WaitSeconds > 0 && time.Until(p.Start).Seconds() > p.WaitSeconds
}

func startText(p control.Prospect) string {
	switch {
	case !p.Usable:
		return "-"
	case p.Start.IsZero():
		return "unknown"
	case time.Until(p.Start) < time.Minute:
		return "now"
	}
	return p.Start.Local().Format("2006-01-02 15:04")
}
