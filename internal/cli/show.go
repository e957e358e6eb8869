package cli

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/state"
	"github.com/bee-hpc/bee/internal/state/event"
	"github.com/spf13/cobra"
)

// runView is a run as `show --json` and `ps --json` give it. Its fields are a
// promise to scripts (docs/reference/json.md): they are added to, never changed.
type runView struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	State state.RunState `json:"state"`
	// Suspended is why a run is, in that state.
	Suspended state.SuspendReason `json:"suspended,omitempty"`
	ExitCode  *int                `json:"exit_code"`
	Error     *errorView          `json:"error,omitempty"`
	Image     string              `json:"image,omitempty"`
	// ImageName is the reference that the job has; absent of images that are built.
	ImageName string            `json:"image_name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	Nodes     int               `json:"nodes"`
	jobView
	Created  time.Time     `json:"created"`
	Ended    *time.Time    `json:"ended,omitempty"`
	Attempts []attemptView `json:"attempts"`
	// Progress is what the last attempt of a run does that is not over. Why is what the
	// run waits for, or why it ended.
	Progress *report.Progress `json:"progress,omitempty"`
	Why      string           `json:"why,omitempty"`
	// Cost is that of all attempts so far, by the prices in the sites file.
	Cost float64 `json:"cost,omitempty"`
	// Time is what its time went to, in seconds.
	Time map[report.Use]float64 `json:"time,omitempty"`
	// Checkpoints are those that are on the submitting machine, oldest first.
	Checkpoints []control.Checkpoint `json:"checkpoints,omitempty"`
	// History has why it waited, why sites were skipped, why it moved.
	History []report.Event `json:"history,omitempty"`
}

type errorView struct {
	Kind    string `json:"kind"`
	Message string `json:"message"`
	Remedy  string `json:"remedy,omitempty"`
}

type attemptView struct {
	Number   int                    `json:"number"`
	Site     string                 `json:"site"`
	Provider string                 `json:"provider"`
	Why      string                 `json:"site_reason,omitempty"`
	Runtime  string                 `json:"runtime"`
	Hosts    []string               `json:"hosts"`
	Started  time.Time              `json:"started"`
	Ended    *time.Time             `json:"ended,omitempty"`
	ExitCode *int                   `json:"exit_code"`
	Error    *errorView             `json:"error,omitempty"`
	Phases   map[core.Phase]float64 `json:"phases"`
	// Starting is how far its virtual machines are, until all are up.
	Starting string `json:"starting,omitempty"`
	// Expected is when the site means to grant the hosts, as long as they are
	// waited for.
	Expected *time.Time `json:"expected,omitempty"`
	// SlotSeconds is the time that it may take on its site; 0: as long as it needs.
	SlotSeconds float64 `json:"slot_seconds,omitempty"`
	// MarginSeconds is how long before the end of its time the job is asked to
	// write its checkpoint; what that took, and the way home.
	MarginSeconds float64 `json:"margin_seconds,omitempty"`
	MarginReason  string  `json:"margin_reason,omitempty"`
	// Answer is how the job ended after it was asked to write its checkpoint.
	Answer            core.Answer `json:"checkpoint_answer,omitempty"`
	CheckpointSeconds float64     `json:"checkpoint_seconds,omitempty"`
	TransferSeconds   float64     `json:"transfer_seconds,omitempty"`
	Nodes             []nodeView  `json:"nodes,omitempty"`
	Cost              float64     `json:"cost,omitempty"`
	// Outputs are those that have been collected, by directory.
	Outputs []state.Arrived `json:"outputs,omitempty"`
}

type nodeView struct {
	Rank              int     `json:"rank"`
	Host              string  `json:"host"`
	Address           string  `json:"address,omitempty"`
	Runtime           string  `json:"runtime"`
	Cores             int     `json:"cores"`
	UserSeconds       float64 `json:"user_seconds"`
	SystemSeconds     float64 `json:"system_seconds"`
	LargestProcessRSS int64   `json:"largest_process_rss_bytes"`
	MemoryKills       int     `json:"memory_kills,omitempty"`
	HostMemoryKills   int     `json:"host_memory_kills,omitempty"`
	// MemoryUnlimited is why the job's memory was not limited there.
	MemoryUnlimited string `json:"memory_unlimited,omitempty"`
	// RDMA are the RDMA devices that its container had.
	RDMA []core.RDMADevice `json:"rdma,omitempty"`
}

// view is all that there is to say of a run.
func (s *session) view(ctx context.Context, r state.Run) (runView, error) {
	v, err := s.summary(ctx, r)
	if err != nil {
		return v, err
	}
	attempts, err := s.Store.Attempts(ctx, r.ID)
	if err != nil {
		return v, err
	}
	v.Time = map[report.Use]float64{}
	for on, took := range report.Spent(r, attempts, time.Now()) {
		v.Time[on] = took.Seconds()
	}
	if v.Checkpoints, err = s.Checkpoints(ctx, r.ID); err != nil {
		return v, err
	}
	if sub, err := control.SubmissionOf(r); err == nil {
		v.jobView = viewJob(sub)
	}
	events, err := s.Store.Events(ctx, r.ID)
	v.History = report.History(events)
	return v, err
}

// summary is a run without what only matters to who looks at that one.
func (s *session) summary(ctx context.Context, r state.Run) (runView, error) {
	v := runView{
		ID: r.ID, Name: r.Name, State: r.State, Suspended: r.Suspended, ExitCode: r.ExitCode, Image: r.Image, Created: r.Created,
		Ended: timePointer(r.Ended), Error: errorOf(r.Kind, r.Message, r.Remedy), Attempts: []attemptView{},
	}
	var prices map[string]float64
	if sub, err := control.SubmissionOf(r); err == nil {
		v.Nodes, v.ImageName, v.Labels = sub.Job.Nodes, sub.Job.Image, sub.Job.Labels
		prices = sub.Prices()
	}
	attempts, err := s.Store.Attempts(ctx, r.ID)
	if err != nil {
		return v, err
	}
	for _, at := range attempts {
		view := viewAttempt(at)
		view.Cost = report.Cost(at, prices[at.Site], time.Now())
		v.Cost += view.Cost
		v.Attempts = append(v.Attempts, view)
	}
	last, _, err := s.Store.LastEvent(ctx, r.ID)
	v.Progress, v.Why = report.ProgressOf(r, attempts, time.Now()), report.Why(r, attempts, last)
	return v, err
}

func viewAttempt(at state.Attempt) attemptView {
	v := attemptView{
		Number: at.N, Site: at.Site, Provider: at.Provider, Why: at.Why, Runtime: at.Runtime, Hosts: []string{},
		Started: at.Started, Ended: timePointer(at.Ended), ExitCode: at.ExitCode,
		Error: errorOf(at.Kind, at.Message, at.Remedy), Phases: map[core.Phase]float64{},
		Expected: timePointer(at.Expected), SlotSeconds: at.Span.Seconds(), MarginSeconds: at.Margin.Seconds(), MarginReason: at.MarginWhy, Answer: at.Answer, CheckpointSeconds: at.Saving.Seconds(), TransferSeconds: at.Bringing.Seconds(), Outputs: at.Outputs,
	}
	if at.Ended.IsZero() {
		v.Starting = at.Starting
	}
	if at.Unreadable != nil {
		v.Error = errorOf(core.Permanent.String(), at.Unreadable.Error(), "Another version of bee may have written it.")
	}
	for _, h := range at.Hosts {
		v.Hosts = append(v.Hosts, h.Name)
	}
	for _, phases := range []map[core.Phase]time.Duration{at.Phases, at.HeadPhases} {
		for p, took := range phases {
			v.Phases[p] += took.Seconds()
		}
	}
	for _, n := range at.Nodes {
		v.Nodes = append(v.Nodes, nodeView{n.Rank, n.Host, n.Addr, n.Runtime, n.Cores, n.UserTime.Seconds(), n.SystemTime.Seconds(), n.MaxRSS, n.MemoryKills, n.HostMemoryKills, n.MemoryUnlimited, n.RDMA})
	}
	return v
}

func errorOf(kind, message, remedy string) *errorView {
	if message == "" {
		return nil
	}
	return &errorView{kind, message, remedy}
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func (a *app) newShowCommand() *cobra.Command {
	var asJSON, beefile bool
	c := &cobra.Command{
		Use: "show RUN", Short: "Show what ran where, how long, and how it ended", Args: cobra.ExactArgs(1),
		ValidArgsFunction: a.runsTo(state.ToSee),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := a.openQuietly(c.Context())
			if err != nil {
				return err
			}
			defer s.close()
			run, err := s.Store.FindRun(c.Context(), args[0], state.ToSee)
			if err != nil {
				return err
			}
			if beefile {
				return a.printBeefile(run)
			}
			v, err := s.view(c.Context(), run)
			if err != nil {
				return err
			}
			if asJSON {
				err = a.writeJSON(v)
			} else {
				err = a.showRun(v)
			}
			if err != nil {
				return err
			}
			return s.warnUnsupervised(c.Context(), func(id string) bool { return id == run.ID })
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	c.Flags().BoolVar(&beefile, "beefile", false, "write the run's job as a Beefile")
	c.MarkFlagsMutuallyExclusive("json", "beefile")
	return c
}

func (a *app) showRun(v runView) error {
	w := a.on(a.stdout).Prose()
	writeRun(w, v)
	return w.Flush()
}

// rows takes names with their values, in blocks with a gap between them.
type rows interface {
	Row(values ...any)
	Gap()
}

// writeRun writes what there is to show of a run.
func writeRun(w rows, v runView) {
	row := func(name, format string, args ...any) { w.Row(name, fmt.Sprintf(format, args...)) }
	row("run", "%s", v.ID)
	row("name", "%s", v.Name)
	w.Row("state", stateCell(v.State))
	if v.ExitCode != nil {
		row("exit code", "%d", *v.ExitCode)
	}
	showError(row, "", v.Error)
	showJob(row, v)
	row("created", "%s", v.Created.Local().Format(time.DateTime))
	if v.Ended != nil {
		row("ended", "%s (after %s)", v.Ended.Local().Format(time.DateTime), durationText(v.Ended.Sub(v.Created)))
	}
	if text := spentText(v.Time); text != "" {
		row("time", "%s", text)
	}
	if v.Cost > 0 {
		row("cost", "%s", costText(v.Cost))
	}
	for _, at := range v.Attempts {
		w.Gap()
		row(fmt.Sprintf("attempt %d", at.Number), "site %s (%s), runtime %s", at.Site, at.Provider, orDash(at.Runtime))
		if at.Why != "" {
			row("  chosen", "%s", at.Why)
		}
		if at.Cost > 0 {
			row("  cost", "%s", costText(at.Cost))
		}
		row("  hosts", "%s", orDash(strings.Join(at.Hosts, ", ")))
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
				long = seconds(at.SlotSeconds) + "; "
			}
			row("  slot", "%sthe job is asked for its checkpoint %s before its end (%s)", long, seconds(at.MarginSeconds), at.MarginReason)
		}
		if at.CheckpointSeconds > 0 {
			row("  checkpoint", "%s from the request until the nodes had ended, %s to transfer it", seconds(at.CheckpointSeconds), seconds(at.TransferSeconds))
		}
		for _, o := range at.Outputs {
			row("  outputs", "in %s: %s", o.To, arrivedText(o))
		}
		for _, n := range at.Nodes {
			killed := ""
			if n.MemoryKills > 0 {
				killed = fmt.Sprintf(", killed for want of memory: %d", n.MemoryKills)
			}
			row(fmt.Sprintf("  node %d", n.Rank), "%s, %s, %d cores, cpu %.1f s user + %.1f s system, largest process %s%s",
				n.Host, orDash(n.Runtime), n.Cores, n.UserSeconds, n.SystemSeconds, bytesText(n.LargestProcessRSS), killed)
			if n.MemoryUnlimited != "" {
				row("", "its memory was not limited: %s", printable(n.MemoryUnlimited))
			}
		}
	}
	if len(v.Checkpoints) > 0 {
		w.Gap()
		row("checkpoints", "")
	}
	for _, c := range v.Checkpoints {
		row("  "+c.Taken.Local().Format(time.DateTime), "attempt %d on %s, %s, %s, kept in %s: %s", c.Attempt, orDash(c.Site), countText(c.Files, "file"), bytesText(c.Bytes),
			seconds(c.Seconds), c.Path)
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

func showError(row func(string, string, ...any), indent string, e *errorView) {
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
		parts[i] = fmt.Sprintf("%s %s", p, durationText(time.Duration(phases[p]*float64(time.Second))))
	}
	return orDash(strings.Join(parts, ", "))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
