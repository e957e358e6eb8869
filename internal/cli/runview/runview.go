// Package runview makes of the records of a run what --json gives programs, and
// bee show people. It changes nothing.
package runview

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/cli/console"
	"github.com/bee-hpc/bee/internal/cli/workspace"
	"github.com/bee-hpc/bee/internal/control"
	"github.com/bee-hpc/bee/internal/control/submission"
	"github.com/bee-hpc/bee/internal/core"
	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/report"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// View is a run as `show --json` and `ps --json` give it. Its fields are a
// promise to scripts (docs/reference/json.md): they are added to, never changed.
type View struct {
	ID    string         `json:"id"`
	Name  string         `json:"name"`
	State state.RunState `json:"state"`
	// Suspended is why a run is, in that state.
	Suspended state.SuspendReason `json:"suspended,omitempty"`
	ExitCode  *int                `json:"exit_code"`
	Error     *console.ErrorView  `json:"error,omitempty"`
	Image     string              `json:"image,omitempty"`
	// ImageName is the reference that the job has; absent of images that are built.
	ImageName string            `json:"image_name,omitempty"`
	Labels    map[string]string `json:"labels,omitempty"`
	// Array is the place of the run in an array; absent: it is in none.
	Array *submission.ArrayCase `json:"array,omitempty"`
	// Pack is the run whose hosts a case of an array shares.
	Pack  string `json:"pack,omitempty"`
	Nodes int    `json:"nodes"`
	Job
	Created  time.Time  `json:"created"`
	Ended    *time.Time `json:"ended,omitempty"`
	Attempts []Attempt  `json:"attempts"`
	// Progress is what the last attempt of a run does that is not over. Why is what the
	// run waits for, or why it ended.
	Progress *report.Progress `json:"progress,omitempty"`
	Why      string           `json:"why,omitempty"`
	// JobProgress is how far the job is, and Metrics the newest of its numbers, as it prints.
	JobProgress *measure.Progress        `json:"job_progress,omitempty"`
	Metrics     map[string]measure.Point `json:"metrics,omitempty"`
	// Use is what the nodes have used, over all attempts.
	Use *measure.Summary `json:"use,omitempty"`
	// Cost is that of all attempts so far, in Currency, or where they have cost several, Costs.
	Cost     float64 `json:"cost,omitempty"`
	Currency string  `json:"currency,omitempty"`
	Costs    []Cost  `json:"costs,omitempty"`
	// Time is what its time went to, in seconds.
	Time map[report.Use]float64 `json:"time,omitempty"`
	// Checkpoints are those that are on the submitting machine, oldest first.
	Checkpoints []control.Checkpoint `json:"checkpoints,omitempty"`
	// Volume is the run's burst buffer on this host, as long as that is there.
	Volume *Volume `json:"volume,omitempty"`
	// History has why it waited, why sites were skipped, why it moved.
	History []report.Event `json:"history,omitempty"`
}

// Attempt is an attempt of a run.
type Attempt struct {
	Number   int      `json:"number"`
	Site     string   `json:"site"`
	Provider string   `json:"provider"`
	Why      string   `json:"site_reason,omitempty"`
	Runtime  string   `json:"runtime"`
	Hosts    []string `json:"hosts"`
	Spot     bool     `json:"spot,omitempty"` // the hosts are spot machines
	// Placement is how the cloud has placed its machines: cluster, spread, or none, where it could not as the site wants.
	Placement string             `json:"placement,omitempty"`
	Started   time.Time          `json:"started"`
	Ended     *time.Time         `json:"ended,omitempty"`
	ExitCode  *int               `json:"exit_code"`
	Error     *console.ErrorView `json:"error,omitempty"`
	// HostsEnd is why its hosts were gone before it had ended there.
	HostsEnd core.HostsEnd          `json:"hosts_end,omitempty"`
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
	Nodes             []Node      `json:"nodes,omitempty"`
	Cost              float64     `json:"cost,omitempty"`
	Currency          string      `json:"currency,omitempty"` // of Cost; "": that of the sites file
	// Outputs are those that have been collected, by directory.
	Outputs []state.Arrived `json:"outputs,omitempty"`
}

// Cost is an amount in a currency; "": that of the sites file.
type Cost struct {
	Amount   float64 `json:"amount"`
	Currency string  `json:"currency,omitempty"`
}

// Node is a node of an attempt.
type Node struct {
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
	// Energy is that of its host while its container was there.
	Energy core.Energy `json:"energy,omitzero"`
	// VMCommand is the command line of QEMU for its guest, at node 0.
	VMCommand string `json:"vm_command,omitempty"`
}

// Of is all that there is to say of a run.
func Of(ctx context.Context, s *workspace.Session, r state.Run) (View, error) {
	v, err := Timed(ctx, s, r)
	if err != nil {
		return v, err
	}
	if v.Checkpoints, err = s.Checkpoints(ctx, r.ID); err != nil {
		return v, err
	}
	if all, err := state.ReadSamples(s.Store.RunDir(r.ID)); err == nil { // else nothing is known, as other facts do not depend on it
		v.Use = all.Summary()
	}
	if sub, err := submission.Of(r); err == nil {
		v.Job = viewJob(sub)
		if sub.Job.Volume.Kind == spec.VolumeBurst {
			v.Volume = volumeOf(ctx, s.Store.Dir(), r.ID)
		}
	}
	events, err := s.Store.History().Events(ctx, r.ID)
	v.History = report.History(events)
	return v, err
}

// Timed is Summary with the uses of the run's time.
func Timed(ctx context.Context, s *workspace.Session, r state.Run) (View, error) {
	v, attempts, err := summary(ctx, s, r)
	if err != nil {
		return v, err
	}
	v.Time = map[report.Use]float64{}
	for on, took := range report.Spent(r, attempts, time.Now()) {
		v.Time[on] = took.Seconds()
	}
	return v, nil
}

// Summary is a run without what only matters to who looks at that one.
func Summary(ctx context.Context, s *workspace.Session, r state.Run) (View, error) {
	v, _, err := summary(ctx, s, r)
	return v, err
}

// summary is Summary, with the attempts that it has read.
func summary(ctx context.Context, s *workspace.Session, r state.Run) (View, []state.Attempt, error) {
	v := View{
		ID: r.ID, Name: r.Name, State: r.State, Suspended: r.Suspended, ExitCode: r.ExitCode, Image: r.Image, Created: r.Created,
		Ended: timePointer(r.Ended), Error: console.ErrorOf(r.Kind, r.Message, r.Remedy), Attempts: []Attempt{},
	}
	var prices map[string]state.Price
	measures := false
	if sub, err := submission.Of(r); err == nil {
		v.Nodes, v.ImageName, v.Labels, v.Array = sub.Job.Nodes, sub.Job.Image, sub.Job.Labels, sub.Array
		prices, measures = sub.Prices(), sub.Job.Progress != nil || len(sub.Job.Metrics) > 0
	}
	attempts, err := s.Store.Attempts(ctx, r.ID)
	if err != nil {
		return v, nil, err
	}
	costs := map[string]float64{}
	for _, at := range attempts {
		view := viewAttempt(at)
		price := prices[at.Site]
		if view.Cost = at.Cost(price, time.Now()); view.Cost > 0 {
			view.Currency = at.Currency(price)
			costs[view.Currency] += view.Cost
		}
		v.Attempts = append(v.Attempts, view)
	}
	if measures {
		v.measure(s, r, attempts)
	}
	v.total(costs)
	last, _, err := s.Store.History().Last(ctx, r.ID)
	v.Pack = r.Case.Pack
	v.Progress, v.Why = report.ProgressOf(r, attempts, time.Now()), report.Why(r, attempts, last)
	return v, attempts, err
}

// total sets what all attempts have cost, by currency.
func (v *View) total(costs map[string]float64) {
	for _, currency := range slices.Sorted(maps.Keys(costs)) {
		v.Costs = append(v.Costs, Cost{costs[currency], currency})
	}
	if len(v.Costs) == 1 {
		v.Cost, v.Currency, v.Costs = v.Costs[0].Amount, v.Costs[0].Currency, nil
	}
}

func viewAttempt(at state.Attempt) Attempt {
	v := Attempt{
		Number: at.N, Site: at.Site, Provider: at.Provider, Why: at.Why, Runtime: at.Runtime, Hosts: []string{},
		Started: at.Started, Ended: timePointer(at.Ended), ExitCode: at.ExitCode,
		Error: console.ErrorOf(at.Kind, at.Message, at.Remedy), HostsEnd: at.HostsEnd, Phases: map[core.Phase]float64{},
		Expected: timePointer(at.Expected), SlotSeconds: at.Span.Seconds(), MarginSeconds: at.Margin.Seconds(), MarginReason: at.MarginWhy, Answer: at.Answer, CheckpointSeconds: at.Saving.Seconds(), TransferSeconds: at.Bringing.Seconds(), Outputs: at.Outputs,
	}
	if at.Ended.IsZero() {
		v.Starting = at.Starting
	}
	if at.Unreadable != nil {
		v.Error = console.ErrorOf(core.Permanent.String(), at.Unreadable.Error(), "Another version of bee may have written it.")
	}
	for _, h := range at.Hosts {
		v.Hosts, v.Spot, v.Placement = append(v.Hosts, h.Name), h.Spot, h.Placement
	}
	for _, phases := range []map[core.Phase]time.Duration{at.Phases, at.HeadPhases} {
		for p, took := range phases {
			v.Phases[p] += took.Seconds()
		}
	}
	for _, n := range at.Nodes {
		v.Nodes = append(v.Nodes, Node{n.Rank, n.Host, n.Addr, n.Runtime, n.Cores, n.UserTime.Seconds(), n.SystemTime.Seconds(), n.MaxRSS, n.MemoryKills, n.HostMemoryKills, n.MemoryUnlimited, n.RDMA, n.Energy, n.VMCommand})
	}
	return v
}

func timePointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Job is what a run was submitted as, in the JSON of one run.
type Job struct {
	// Built is how its image was made, of a job that has no ImageName.
	Built string `json:"built,omitempty"`
	// Command is its argument vector; absent: the image's own.
	Command []string          `json:"command,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are the names of variables whose values are not recorded.
	Secrets []string `json:"secrets,omitempty"`
	// Beefile is the file's path; absent: standard input, or a command line.
	Beefile   string `json:"beefile,omitempty"`
	Directory string `json:"directory,omitempty"`
	Version   string `json:"version,omitempty"`
	User      string `json:"user,omitempty"`
}

func viewJob(sub submission.Submission) Job {
	job, from := sub.Job, sub.Origin
	v := Job{Env: job.Env, Secrets: slices.Sorted(maps.Keys(job.Secrets)), Beefile: from.Beefile, Directory: from.Dir, Version: from.Version, User: from.User}
	if job.Run != nil {
		v.Command = job.Run.Argv
		if job.Run.Shell != "" {
			v.Command = []string{"/bin/sh", "-c", job.Run.Shell}
		}
	}
	switch b := job.Build; {
	case b == nil:
	case b.Debian != "":
		v.Built = "of Debian " + b.Debian
	default:
		v.Built = "of " + b.DockerfileIn(b.Context)
	}
	return v
}
