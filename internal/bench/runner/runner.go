// Package runner takes the measurements of a study alternately: blocks in which each
// environment is measured once per point, and the baseline twice, in random order. It
// continues where a former process ended. How one measurement is taken, and when the
// figures are precise enough, is given to it; it knows no run and no verdict.
package runner

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Measurement is one thing to measure.
type Measurement struct {
	Point       record.Point
	Environment string
	Again       bool
	Block       int
	Place       int
	Epoch       int
}

// Measurer takes one measurement. It fills in what it found: metrics, seconds, findings, the
// log. A row with Status Failed and an Error is a measurement that failed; an error is a
// fault of the measurer itself and ends the study.
type Measurer interface {
	Measure(ctx context.Context, m Measurement) (record.Row, error)
}

// Scant is a budget that is too small for a verdict.
type Scant struct {
	Budget time.Duration
	// Tried: nothing is measured yet, and the times are those of the trials alone.
	Tried bool
	// Blocks likely fit, Least are needed, and Needs is the time of those.
	Blocks, Least int
	Needs         time.Duration
}

// Progress is where a study stands.
type Progress struct {
	Measurement
	// Done and Most are numbers of measurements; a study may stop before Most.
	Done, Most int
	// Left is the time until Most, by the mean so far; 0: not known.
	Left time.Duration
}

// End is why measuring ended.
type End string

// The ends.
const (
	Precise     End = "precise"     // the intervals are narrow enough
	AllBlocks   End = "all blocks"  // the greatest number of blocks is measured
	OverBudget  End = "over budget" // the next block would not fit
	Interrupted End = "interrupted" // on request
	OnlyBase    End = "no environment is left"
	HostsEnd    End = "the hosts end" // the next measurement would not fit before
)

// tries of a measurement, and failures of an environment in a row after which it is given up.
const (
	mostTries    = 2
	mostFailures = 3
)

// Runner measures into a journal.
type Runner struct {
	Journal  *record.Journal
	Measurer Measurer
	// Precise reports whether the rows so far suffice.
	Precise func(rows []record.Row) bool
	// Family is the number of primary contrasts.
	Family int
	Epoch  int
	Report func(Progress)
	// Failed, if set, is called with each measurement that failed.
	Failed func(record.Row)
	// Scant, if set, is called if the budget likely ends the study before it has a verdict: before
	// the first block by the trials of the environments, and after it by its time.
	Scant func(Scant)
	// Stop, closed, ends the study after the current measurement.
	Stop <-chan struct{}
	// Ends, if set, is when the hosts are taken back; zero: never.
	Ends func() time.Time
	Now  func() time.Time

	failures map[string]int // of an environment, in a row
	done     map[key]bool
}

type key struct {
	point, environment string
	again              bool
	block              int
}

func keyOf(r *record.Row) key { return key{r.Point, r.Environment, r.Again, r.Block} }

// Run measures until the figures are precise, the blocks or the budget are used up, or Stop
// is closed. It returns why it ended.
func (r *Runner) Run(ctx context.Context) (End, error) {
	r.resume()
	plan := &r.Journal.Plan
	looks := stats.Looks(plan.Least, plan.Most, r.Family)
	if len(r.Journal.Rows) == 0 {
		r.foresee(r.trials(), true)
	}
	for block := 0; block <= plan.Most; block++ {
		if r.overBudget(block) {
			return OverBudget, nil
		}
		if end, err := r.block(ctx, block); end != "" || err != nil {
			return end, err
		}
		if len(plan.Environments) > 1 && !slices.ContainsFunc(plan.Points, func(p record.Point) bool { return len(r.active(p)) > 1 }) {
			return OnlyBase, nil
		}
		if block == 0 {
			r.foresee(r.warmUp(), false)
		}
		if slices.Contains(looks, block) && block < plan.Most && r.Precise(r.Journal.Rows) {
			return Precise, nil
		}
	}
	return AllBlocks, nil
}

// resume notes what the journal has already.
func (r *Runner) resume() {
	r.failures, r.done = map[string]int{}, map[key]bool{}
	for i := range r.Journal.Rows {
		r.note(&r.Journal.Rows[i])
	}
}

func (r *Runner) note(row *record.Row) {
	switch row.Status {
	case record.OK:
		r.done[keyOf(row)] = true
		r.failures[row.Environment] = 0
	case record.GivenUp:
		r.done[keyOf(row)] = true
	case record.Failed:
		if row.Try >= mostTries {
			r.done[keyOf(row)] = true
			r.failures[row.Environment]++
		}
	}
}

// active returns the environments of a point that are measured still.
func (r *Runner) active(p record.Point) []string {
	var names []string
	for _, e := range r.Journal.Plan.Environments {
		if e.Dropped == "" && slices.Contains(p.Environments, e.Name) && r.failures[e.Name] < mostFailures {
			names = append(names, e.Name)
		}
	}
	return names
}

// turns returns the measurements of a point's block, in their order.
func (r *Runner) turns(p record.Point, block int) []Measurement {
	plan := &r.Journal.Plan
	var all []Measurement
	for _, e := range plan.Environments {
		if e.Dropped == "" && slices.Contains(p.Environments, e.Name) {
			all = append(all, Measurement{Point: p, Environment: e.Name, Block: block, Epoch: r.Epoch})
		}
	}
	all = append(all, Measurement{Point: p, Environment: plan.Baseline, Again: true, Block: block, Epoch: r.Epoch})
	if plan.Method != "robust" { // one environment after the other, as the papers did
		for i := range all {
			all[i].Place = i
		}
		return all
	}
	h := fnv.New64a()
	h.Write([]byte(p.ID))
	order := stats.Order(len(all), block+1, plan.Seed^h.Sum64())[block]
	turns := make([]Measurement, len(all))
	for place, i := range order {
		turns[place] = all[i]
		turns[place].Place = place
	}
	return turns
}

func (r *Runner) block(ctx context.Context, block int) (End, error) {
	for _, p := range r.Journal.Plan.Points {
		for _, m := range r.turns(p, block) {
			if err := r.measure(ctx, m); err != nil {
				if errors.Is(err, errStopped) {
					return Interrupted, nil
				}
				if errors.Is(err, errTooLate) {
					return HostsEnd, nil
				}
				return "", err
			}
		}
	}
	return "", nil
}

var (
	errStopped = errors.New("the study was stopped")
	errTooLate = errors.New("the hosts are taken back before the measurement would end")
)

// spare is how much longer than the longest before it a measurement may take.
const spare = 1.25

// tooLate reports whether a measurement would likely end after the hosts are taken back.
func (r *Runner) tooLate(m Measurement) bool {
	if r.Ends == nil {
		return false
	}
	ends := r.Ends()
	if ends.IsZero() {
		return false
	}
	var longest float64
	for i := range r.Journal.Rows {
		if row := &r.Journal.Rows[i]; row.Point == m.Point.ID && row.Environment == m.Environment {
			longest = max(longest, row.Seconds)
		}
	}
	return !r.Now().Add(time.Duration(longest * spare * float64(time.Second))).Before(ends)
}

// measure takes a measurement unless the journal has it, and tries a failed one again.
func (r *Runner) measure(ctx context.Context, m Measurement) error {
	k := key{m.Point.ID, m.Environment, m.Again, m.Block}
	for try := 1 + r.tried(k); !r.done[k]; try++ {
		select {
		case <-r.Stop:
			return errStopped
		case <-ctx.Done():
			return errStopped
		default:
		}
		if r.tooLate(m) {
			return errTooLate
		}
		r.Report(r.progress(m))
		row := record.Row{Status: record.GivenUp, Begin: r.Now()}
		if r.failures[m.Environment] < mostFailures {
			var err error
			if row, err = r.Measurer.Measure(ctx, m); err != nil {
				if ctx.Err() != nil {
					return errStopped
				}
				return fmt.Errorf("measure %s: %w", m.Environment, err)
			}
			if ctx.Err() != nil { // it was cut short
				return errStopped
			}
		}
		row.Point, row.Environment, row.Again, row.Block = m.Point.ID, m.Environment, m.Again, m.Block
		row.Place, row.Epoch, row.Try = m.Place, m.Epoch, try
		if err := r.Journal.Append(row); err != nil {
			return err
		}
		r.note(&row)
		if row.Status == record.Failed && r.Failed != nil {
			r.Failed(row)
		}
	}
	return nil
}

// tried counts the failed tries of a measurement in the journal.
func (r *Runner) tried(k key) (n int) {
	for i := range r.Journal.Rows {
		if row := &r.Journal.Rows[i]; keyOf(row) == k && row.Status == record.Failed {
			n++
		}
	}
	return n
}

// spent is the time of all measurements, of former processes too.
func (r *Runner) spent() time.Duration {
	var seconds float64
	for i := range r.Journal.Rows {
		seconds += r.Journal.Rows[i].Seconds
	}
	return time.Duration(seconds * float64(time.Second))
}

// budget is the most time to measure; 0: no limit.
func (r *Runner) budget() time.Duration {
	return time.Duration(r.Journal.Plan.BudgetSeconds * float64(time.Second))
}

// overBudget reports whether one more block would not fit into the budget.
func (r *Runner) overBudget(block int) bool {
	budget := r.budget()
	if budget == 0 || block < 2 {
		return false
	}
	spent := r.spent()
	return spent+spent/time.Duration(block) > budget
}

// foresee calls Scant where a block of a length is too long for the budget.
func (r *Runner) foresee(block time.Duration, tried bool) {
	plan := &r.Journal.Plan
	budget := r.budget()
	least := min(max(plan.Least, stats.LeastBlocks(r.Family)), plan.Most)
	if budget == 0 || block <= 0 || r.Scant == nil {
		return
	}
	if blocks := int(budget/block) - 1; blocks < least {
		r.Scant(Scant{Budget: budget, Tried: tried, Blocks: max(0, blocks), Least: least, Needs: time.Duration(least+1) * block})
	}
}

// trials is the time that all measurements of a block take to start, as in the trials.
func (r *Runner) trials() time.Duration {
	var seconds float64
	plan := &r.Journal.Plan
	for _, p := range plan.Points {
		for _, m := range r.turns(p, 0) {
			for i := range plan.Environments {
				if e := &plan.Environments[i]; e.Name == m.Environment {
					seconds += e.TrialSeconds
				}
			}
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

// warmUp is the time of the block that warms up.
func (r *Runner) warmUp() time.Duration {
	var seconds float64
	for i := range r.Journal.Rows {
		if r.Journal.Rows[i].Block == 0 {
			seconds += r.Journal.Rows[i].Seconds
		}
	}
	return time.Duration(seconds * float64(time.Second))
}

func (r *Runner) progress(m Measurement) Progress {
	plan := &r.Journal.Plan
	p := Progress{Measurement: m, Done: len(r.done)}
	for _, point := range plan.Points {
		p.Most += (len(r.active(point)) + 1) * (plan.Most + 1)
	}
	if p.Done > 0 {
		p.Left = r.spent() / time.Duration(p.Done) * time.Duration(max(0, p.Most-p.Done))
	}
	return p
}
