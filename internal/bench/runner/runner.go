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
	// Try counts from 1.
	Try int
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
	Precise     End = "precise"                // the intervals are narrow enough
	AllBlocks   End = "all blocks"             // the greatest number of blocks is measured
	OverBudget  End = "over budget"            // the next block would not fit
	Interrupted End = "interrupted"            // on request
	OnlyBase    End = "no environment is left" // the baseline is alone, or given up
	HostsEnd    End = "the hosts end"          // the next measurement would not fit before
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
	// Together takes measurements of one environment in a block whose points share containers. It
	// returns a row for each, in their order. Only plans with Reuse need it.
	Together func(ctx context.Context, all []Measurement) ([]record.Row, error)
	// Precise reports whether the rows so far suffice.
	Precise func(rows []record.Row) bool
	// Family is the number of primary contrasts.
	Family int
	Epoch  int
	Report func(Progress)
	// Failed, if set, is called with each measurement that failed, and whether its environment is
	// given up by that.
	Failed func(r record.Row, givenUp bool)
	// Scant, if set, is called if the budget likely ends the study before it has a verdict: before
	// the first block by the trials of the environments, and after it by its time.
	Scant func(Scant)
	// Stop, closed, ends the study after the current measurement.
	Stop <-chan struct{}
	// Cut, closed, means that the measurement under way was ended by the user and counts as none.
	Cut <-chan struct{}
	// Ends, if set, is when the hosts are taken back; zero: never.
	Ends func() time.Time
	Now  func() time.Time

	failures map[string]int       // of an environment, in a row
	last     map[string]container // the one that failed last
	done     map[key]bool
}

type key struct {
	point, environment string
	again              bool
	block              int
}

// A container is that of an environment in a block. Its points may share it.
type container struct {
	again bool
	block int
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
	if plan.Method == study2016 {
		return r.inTurn(ctx)
	}
	for block := 0; block <= plan.Most; block++ {
		if r.overBudget(block) {
			return OverBudget, nil
		}
		if end, err := r.block(ctx, block); end != "" || err != nil {
			return end, err
		}
		if len(plan.Environments) > 1 && !slices.ContainsFunc(plan.Points, r.compares) {
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

// study2016 is the method whose environments are measured one after the other.
const study2016 = "beserra2016"

// inTurn takes all measurements of an environment before those of the next. The baseline is
// measured again last, so that A/A shows how the machine has changed.
func (r *Runner) inTurn(ctx context.Context) (End, error) {
	plan := &r.Journal.Plan
	all, turn, cut := 0, 0, false
	for _, p := range plan.Points {
		all += len(r.turns(p, 0))
	}
	for _, p := range plan.Points {
		for i := range r.turns(p, 0) {
			turn++
			for block := range plan.Most + 1 {
				// Each has its share of the budget, and what those before have left of theirs.
				if budget := r.budget(); budget > 0 && block > 1 && r.spent() >= budget*time.Duration(turn)/time.Duration(all) {
					cut = true
					break
				}
				if end, err := r.ended(r.measure(ctx, r.turns(p, block)[i])); end != "" || err != nil {
					return end, err
				}
			}
			if len(plan.Environments) > 1 && !slices.ContainsFunc(plan.Points, r.compares) {
				return OnlyBase, nil
			}
		}
	}
	if cut {
		return OverBudget, nil
	}
	return AllBlocks, nil
}

// ended is the end of a study that the error of a measurement means.
func (r *Runner) ended(err error) (End, error) {
	switch {
	case errors.Is(err, errStopped):
		return Interrupted, nil
	case errors.Is(err, errTooLate):
		return HostsEnd, nil
	}
	return "", err
}

// resume notes what the journal has already.
func (r *Runner) resume() {
	r.failures, r.last, r.done = map[string]int{}, map[string]container{}, map[key]bool{}
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
		if row.Try < mostTries {
			return
		}
		r.done[keyOf(row)] = true
		c := container{row.Again, row.Block}
		if before, failed := r.last[row.Environment]; failed && before == c && r.Journal.Plan.Reuse != "" {
			return // it counts once for all of its points
		}
		r.last[row.Environment] = c
		r.failures[row.Environment]++
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

// compares reports whether a point still has a baseline and something to compare with it.
func (r *Runner) compares(p record.Point) bool {
	names := r.active(p)
	return len(names) > 1 && slices.Contains(names, r.Journal.Plan.Baseline)
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
	if plan.Method != "robust" { // always in the same order
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
	for _, turn := range r.blockTurns(block) {
		if end, err := r.ended(r.measure(ctx, turn...)); end != "" || err != nil {
			return end, err
		}
	}
	return "", nil
}

// blockTurns returns the measurements of a block, in their order. Those of one turn may share
// containers.
func (r *Runner) blockTurns(block int) (all [][]Measurement) {
	points := r.Journal.Plan.Points
	if r.Journal.Plan.Reuse == "" {
		for _, p := range points {
			for _, m := range r.turns(p, block) {
				all = append(all, []Measurement{m})
			}
		}
		return all
	}
	var whole record.Point // with the environments of all
	for _, p := range points {
		whole.Environments = append(whole.Environments, p.Environments...)
	}
	for _, m := range r.turns(whole, block) {
		var turn []Measurement
		for _, p := range points {
			if slices.Contains(p.Environments, m.Environment) {
				m.Point = p
				turn = append(turn, m)
			}
		}
		all = append(all, turn)
	}
	return all
}

var (
	errStopped = errors.New("the study was stopped")
	errTooLate = errors.New("the hosts are taken back before the measurement would end")
)

// spare is how much longer than the longest before it a measurement may take.
const spare = 1.25

// tooLate reports whether measurements would likely end after the hosts are taken back.
func (r *Runner) tooLate(all []Measurement) bool {
	if r.Ends == nil {
		return false
	}
	ends := r.Ends()
	if ends.IsZero() {
		return false
	}
	var seconds float64
	for _, m := range all {
		var longest float64
		for i := range r.Journal.Rows {
			if row := &r.Journal.Rows[i]; row.Point == m.Point.ID && row.Environment == m.Environment {
				longest = max(longest, row.Seconds)
			}
		}
		seconds += longest
	}
	return !r.Now().Add(time.Duration(seconds * spare * float64(time.Second))).Before(ends)
}

// measure takes the measurements of a turn that the journal does not have, and tries failed ones
// again.
func (r *Runner) measure(ctx context.Context, turn ...Measurement) error {
	for {
		left := r.left(turn)
		if len(left) == 0 {
			return nil
		}
		select {
		case <-r.Stop:
			return errStopped
		case <-ctx.Done():
			return errStopped
		default:
		}
		if r.tooLate(left) {
			return errTooLate
		}
		r.Report(r.progress(left[0]))
		rows, err := r.take(ctx, left)
		switch {
		case ctx.Err() != nil || err == nil && closed(r.Cut): // it was cut short
			return errStopped
		case err != nil:
			return fmt.Errorf("measure %s: %w", left[0].Environment, err)
		}
		for i, m := range left {
			if err := r.append(m, rows[i]); err != nil {
				return err
			}
		}
	}
}

// left returns the measurements that the journal does not have, with the number of the next try.
func (r *Runner) left(turn []Measurement) (left []Measurement) {
	for _, m := range turn {
		k := key{m.Point.ID, m.Environment, m.Again, m.Block}
		if !r.done[k] {
			m.Try = 1 + r.tried(k)
			left = append(left, m)
		}
	}
	return left
}

// take takes measurements of one environment.
func (r *Runner) take(ctx context.Context, all []Measurement) ([]record.Row, error) {
	switch {
	case r.failures[all[0].Environment] >= mostFailures:
		return slices.Repeat([]record.Row{{Status: record.GivenUp, Begin: r.Now()}}, len(all)), nil
	case r.Journal.Plan.Reuse != "":
		return r.Together(ctx, all)
	}
	row, err := r.Measurer.Measure(ctx, all[0])
	return []record.Row{row}, err
}

// append writes what a measurement found into the journal.
func (r *Runner) append(m Measurement, row record.Row) error {
	row.Point, row.Environment, row.Again, row.Block = m.Point.ID, m.Environment, m.Again, m.Block
	row.Place, row.Epoch, row.Try = m.Place, m.Epoch, m.Try
	if err := r.Journal.Append(row); err != nil {
		return err
	}
	before := r.failures[row.Environment]
	r.note(&row)
	if row.Status == record.Failed && r.Failed != nil {
		now := r.failures[row.Environment]
		r.Failed(row, now > before && now == mostFailures)
	}
	return nil
}

// closed reports whether a channel is closed; one that is not there never is.
func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
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
	for i := range plan.Environments {
		e := &plan.Environments[i]
		seconds += e.TrialSeconds * float64(plan.Starts(e))
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
