package recordcmd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/output"
	"github.com/bee-hpc/bee/internal/cli/runview"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/spf13/cobra"
)

type psOptions struct {
	all, asJSON, ids, watch bool
	cases                   bool   // of arrays, each is a line
	array                   string // only its cases are listed
	limit                   int
	format                  string
	filter                  psFilter
}

// PsCommand returns the command `ps`.
func (a *Commands) PsCommand() *cobra.Command {
	var o psOptions
	c := &cobra.Command{
		Use: "ps [ARRAY]", Aliases: []string{"ls"}, Short: "List runs, or the cases of an array", Args: cobra.MaximumNArgs(1),
		Long: `List the runs that are not over; with -a all of them, newest first. PROGRESS is what
the last attempt does, for how long, how long it may, and how much of the job is done,
where the Beefile has progress. WHY is what a run waits for, or
why it ended. An array of runs is one line, with how many of its cases are over;
bee ps ARRAY lists the cases, also those that are over. --cases and the flags that choose
runs list each case of all arrays. So do --json, --format and --quiet.

--format prints each run by a template in Go's syntax, with the fields of --json.`,
		Example: "  bee ps --all --limit 20\n  bee ps --watch\n  bee ps -a --since 7d --state failed --format '{{.id}} {{.why}}'",
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				o.array, o.all = args[0], true
			}
			return a.ps(c.Context(), o)
		},
	}
	c.Flags().BoolVarP(&o.all, "all", "a", false, "also runs that are over")
	o.filter.flags(c, a.Workspace)
	c.Flags().BoolVar(&o.cases, "cases", false, "each case of an array on a line of its own")
	c.Flags().IntVar(&o.limit, "limit", 0, "show at most this `number` of runs, the newest (0: all)")
	c.Flags().BoolVarP(&o.ids, "quiet", "q", false, "ids only")
	c.Flags().StringVar(&o.format, "format", "", "print each run by this `template`, or json")
	c.Flags().BoolVar(&o.watch, "watch", false, "show the list again and again, until Ctrl-C")
	c.Flags().BoolVar(&o.asJSON, "json", false, "write JSON")
	c.MarkFlagsMutuallyExclusive("quiet", "format", "json", "watch")
	return c
}

func (a *Commands) ps(ctx context.Context, o psOptions) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := o.filter.check(); err != nil {
		return err
	}
	o.asJSON = o.asJSON || o.format == "json"
	var template *output.Template
	if o.format != "" && !o.asJSON {
		if template, err = output.ParseTemplate(o.format); err != nil {
			return err
		}
	}
	if o.watch {
		return a.Watch(ctx, func(w *output.Screen) error {
			views, err := listedRuns(ctx, s, o)
			if err != nil {
				return err
			}
			return listRuns(w, views)
		})
	}
	views, err := listedRuns(ctx, s, o)
	if err != nil {
		return err
	}
	switch {
	case o.asJSON:
		err = a.WriteJSON(views)
	case template != nil:
		for _, v := range views {
			if err := template.Print(a.Stdout, v); err != nil {
				return err
			}
		}
		return nil
	case o.ids:
		for _, v := range views {
			if _, err := fmt.Fprintln(a.Stdout, v.ID); err != nil {
				return err
			}
		}
		return nil
	default:
		err = listRuns(a.On(a.Stdout), views)
	}
	if err != nil {
		return err
	}
	return s.WarnUnsupervised(ctx, func(string) bool { return true })
}

// listedRuns returns the runs that are asked for, newest first. Of those with a limit, only so
// many are read as it takes.
func listedRuns(ctx context.Context, s *workspace.Session, o psOptions) ([]runview.View, error) {
	if o.array != "" {
		return listedCases(ctx, s, o)
	}
	if o.folds() {
		return foldedRuns(ctx, s, o)
	}
	for most := o.limit; ; most *= 8 {
		runs, err := s.Store.Runs(ctx, state.Filter{Active: !o.all && !o.filter.wantsOver(), Limit: most})
		if err != nil {
			return nil, err
		}
		views, err := passingRuns(ctx, s, runs, o)
		if err != nil || len(views) == o.limit || len(runs) < most || most <= 0 {
			return views, err
		}
	}
}

// How many cases of an array are read at once, and with a limit.
const (
	casesAtOnce     = 1000
	casesUnderLimit = 100
)

// listedCases returns the cases of an array that are asked for, in their order. NotFound: the word
// means no array.
func listedCases(ctx context.Context, s *workspace.Session, o psOptions) ([]runview.View, error) {
	array, err := s.Store.Arrays().Find(ctx, o.array, state.ToSee)
	if err != nil {
		return nil, err
	}
	if array.ID == "" {
		e := &core.Error{Kind: core.NotFound, Op: "find array", Object: o.array, Err: errors.New("no run is a case of it"), Remedy: "`bee ps -a` lists all runs and arrays."}
		if named, failed := s.Named(ctx, []string{o.array}, state.ToSee); failed == nil && len(named) == 1 {
			e.Err, e.Remedy = errors.New("it is a run, and no array"), "`bee show "+named[0].ID+"` shows it."
		}
		return nil, e
	}
	views, page := []runview.View{}, casesAtOnce
	if o.limit > 0 {
		page = casesUnderLimit
	}
	for last := 0; ; {
		runs, err := s.Store.Arrays().Page(ctx, array.ID, last, page)
		if err != nil {
			return nil, err
		}
		some, err := passingRuns(ctx, s, runs, o)
		if err != nil {
			return nil, err
		}
		views = append(views, some...)
		if o.limit > 0 && len(views) >= o.limit {
			return views[:o.limit], nil
		}
		if len(runs) < page {
			return views, nil
		}
		last = runs[len(runs)-1].Case.Number
	}
}

// passingRuns returns those of the runs that pass the filter, up to the limit.
func passingRuns(ctx context.Context, s *workspace.Session, runs []state.Run, o psOptions) ([]runview.View, error) {
	views := []runview.View{}
	for _, r := range runs {
		if o.limit > 0 && len(views) == o.limit {
			break
		}
		v, err := runview.Summary(ctx, s, r)
		if core.IsKind(err, core.NotFound) { // it was removed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		if o.filter.passes(v, time.Now()) {
			views = append(views, v)
		}
	}
	return views, nil
}

// foldedRuns returns the runs that are no cases, and each array as one line. However many
// cases there are, none but the first of each array is read.
func foldedRuns(ctx context.Context, s *workspace.Session, o psOptions) ([]runview.View, error) {
	runs, err := s.Store.Runs(ctx, state.Filter{Active: !o.all, Alone: true, Limit: o.limit})
	if err != nil {
		return nil, err
	}
	views, err := passingRuns(ctx, s, runs, o)
	if err != nil {
		return nil, err
	}
	arrays, err := s.Store.Arrays().All(ctx, !o.all)
	if err != nil {
		return nil, err
	}
	for i, array := range arrays {
		if o.limit > 0 && i == o.limit {
			break
		}
		first, err := s.Store.Arrays().First(ctx, array.ID)
		if err != nil {
			return nil, err
		}
		nodes := 0
		if sub, err := submission.Of(first); err == nil {
			nodes = sub.Job.Nodes
		}
		views = append(views, runview.Folded(array, nodes))
	}
	slices.SortStableFunc(views, func(a, b runview.View) int { return b.Created.Compare(a.Created) })
	if o.limit > 0 && len(views) > o.limit {
		views = views[:o.limit]
	}
	return views, nil
}

// folds reports whether an array is one line.
func (o psOptions) folds() bool {
	return !o.cases && !o.asJSON && !o.ids && o.format == "" && o.array == "" && o.filter.empty()
}

func listRuns(screen *output.Screen, views []runview.View) error {
	w := screen.List(5, 4, 7, 6, 8).Keep(2)
	w.Row("RUN", "NAME", "STATE", "SITE", "NODES", "STARTED", "TOOK", "EXIT", "PROGRESS", "WHY")
	for _, v := range views {
		site, exit := "-", "-"
		if n := len(v.Attempts); n > 0 {
			site = v.Attempts[n-1].Site
		}
		if v.ExitCode != nil {
			exit = fmt.Sprint(*v.ExitCode)
		} else if v.Error != nil {
			exit = v.Error.Kind
		}
		end := time.Now()
		if v.Ended != nil {
			end = *v.Ended
		}
		w.Row(v.ID, v.Name, stateCell(v.State), site, v.Nodes, v.Created.Local().Format(time.DateTime), console.DurationText(end.Sub(v.Created)), exit, progressText(v.Progress, v.JobProgress), v.Why)
	}
	return w.Flush()
}

// progressText is what an attempt does, for how long, how long it may, and how far its job is.
func progressText(p *report.Progress, job *measure.Progress) string {
	if p == nil {
		return "-"
	}
	text := string(p.State) + " " + console.Seconds(p.Seconds)
	if p.State == state.Computing && p.SlotSeconds > 0 {
		text += " of " + console.Seconds(p.SlotSeconds)
	}
	if p.Attempt > 1 {
		text = fmt.Sprintf("%d: %s", p.Attempt, text)
	}
	if job != nil {
		text += ", " + percentText(job)
	}
	return text
}
