package recordcmd

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/spf13/cobra"
)

type eventsOptions struct {
	follow bool
	since  console.Age
}

// eventLine is an event as `bee events` writes it. Number counts the events of its run.
type eventLine struct {
	Run    string `json:"run"`
	Number int64  `json:"number"`
	report.Event
}

// EventsCommand returns the command `events`.
func (a *Commands) EventsCommand() *cobra.Command {
	var o eventsOptions
	c := &cobra.Command{
		Use: "events [RUN...]", Short: "Print the events of runs as JSON lines", ValidArgsFunction: a.RunsTo(state.ToSee),
		Long: `Print the events of runs, a JSON object on each line: those of the named runs, else of
all that are not over. They are the same as in the history of bee show --json. Numbers
grow within a run; a gap is an event that was dropped.`,
		Example: "  bee events -f lysozyme\n  bee events --since 1h",
		Args:    cobra.ArbitraryArgs,
		RunE:    func(c *cobra.Command, args []string) error { return a.events(c.Context(), args, o) },
	}
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "continue until the runs are over; without RUN, for ever")
	c.Flags().Var(&o.since, "since", "only events of this last `time`, such as 1h; of runs that are over, too")
	c.Flags().Bool("json", true, "the events are always JSON")
	return c
}

func (a *Commands) events(ctx context.Context, words []string, o eventsOptions) error {
	s, err := a.OpenQuietly(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	named, err := s.Named(ctx, words, state.ToSee)
	if err != nil {
		return err
	}
	var begin time.Time
	if o.since > 0 {
		begin = time.Now().Add(-time.Duration(o.since))
	}
	written := map[string]int64{}
	for {
		runs, err := ofEvents(ctx, s, named, o)
		if err != nil {
			return err
		}
		over, err := a.writeEvents(ctx, s, runs, begin, written)
		if err != nil || !o.follow || over && len(named) > 0 {
			return err
		}
		select {
		case <-time.After(workspace.WaitLook):
		case <-ctx.Done():
			return nil
		}
	}
}

// ofEvents are the runs whose events are printed, oldest first, as they are now.
func ofEvents(ctx context.Context, s *workspace.Session, named []state.Run, o eventsOptions) ([]state.Run, error) {
	if len(named) == 0 {
		runs, err := s.Store.Runs(ctx, state.Filter{Active: o.since == 0 && !o.follow})
		slices.Reverse(runs)
		return runs, err
	}
	now := make([]state.Run, len(named))
	for i, r := range named {
		var err error
		if now[i], err = s.Store.Run(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return now, nil
}

// writeEvents writes the events that were not written yet, in the order of time. It
// reports whether all runs are over.
func (a *Commands) writeEvents(ctx context.Context, s *workspace.Session, runs []state.Run, begin time.Time, written map[string]int64) (over bool, err error) {
	over = true
	var lines []eventLine
	for _, r := range runs {
		over = over && r.State.Final()
		events, err := s.Store.History().Events(ctx, r.ID)
		if err != nil {
			return false, err
		}
		events = slices.DeleteFunc(events, func(e event.Event) bool { return e.Seq <= written[r.ID] || e.Time.Before(begin) })
		for i, shown := range report.History(events) {
			lines = append(lines, eventLine{Run: r.ID, Number: events[i].Seq, Event: shown})
			written[r.ID] = events[i].Seq
		}
	}
	slices.SortStableFunc(lines, func(x, y eventLine) int { return x.Time.Compare(y.Time) })
	out := json.NewEncoder(a.Stdout)
	for _, l := range lines {
		if err := out.Encode(l); err != nil {
			return over, err
		}
	}
	return over, nil
}
