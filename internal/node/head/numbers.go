package head

import (
	"path"
	"time"

	"github.com/bee-hpc/bee/internal/measure"
	"github.com/bee-hpc/bee/internal/node/journal"
	"github.com/bee-hpc/bee/internal/plan"
)

// numbers reads progress and metrics from the job's output into the journal, and progress perhaps
// from a file. nil reads none.
type numbers struct {
	reader  *measure.Reader
	file    *progressFile // nil: there is none
	journal *journal.Journal
	begun   time.Time
	last    time.Time // when the journal had numbers
	pending *measure.Values
}

const (
	// numbersTick is how often the newest numbers are looked at.
	numbersTick = time.Second
	// numbersShare is the part of the attempt's time by which the journal's numbers may be
	// late, so that a long attempt leaves few events; numbersLate bounds it.
	numbersShare = 500
	numbersLate  = time.Minute
)

// newNumbers makes what reads a plan's numbers. Patterns were checked when the job was
// submitted: with one that this bee cannot read, none are.
func newNumbers(p *plan.Plan, v *volumes, j *journal.Journal) *numbers {
	source := measure.Source{Pattern: p.Progress, Program: p.ProgressProgram, Total: p.ProgressTotal}
	if source == (measure.Source{}) && p.ProgressFile == "" && len(p.Metrics) == 0 {
		return nil
	}
	reader, err := measure.NewReader(source, p.Metrics)
	if err != nil {
		j.Remark("", "warning: no progress and metrics are read: "+err.Error())
		return nil
	}
	n := &numbers{reader: reader, journal: j, begun: time.Now()}
	switch {
	case p.ProgressFile != "":
		n.file = &progressFile{plan: p, volumes: v, journal: j, path: p.ProgressFile, most: maxProgress, take: func(text string) (all bool) {
			reader.File(text)
			return false
		}}
	case source.TotalFile() != "":
		file := path.Join(p.Workdir, source.TotalFile())
		if _, is := p.InVolume(file); is {
			n.file = &progressFile{plan: p, volumes: v, journal: j, path: file, most: maxTotalFile, take: reader.Total}
		}
	}
	return n
}

// stream begins a stream of output, or returns nil.
func (n *numbers) stream() *measure.Stream {
	if n == nil {
		return nil
	}
	return n.reader.Stream()
}

// follow passes numbers on until done is called, which passes the last ones.
func (n *numbers) follow() (done func()) {
	if n == nil {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(numbersTick)
		defer tick.Stop()
		for {
			select {
			case now := <-tick.C:
				if n.file != nil {
					n.file.look()
				}
				n.pass(now, min(numbersLate, now.Sub(n.begun)/numbersShare))
			case <-end:
				if n.file != nil {
					n.file.last()
				}
				n.pass(time.Now(), 0)
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

// pass adds the newest numbers to the journal, unless it had some just before.
func (n *numbers) pass(now time.Time, pause time.Duration) {
	if v, is := n.reader.Tick(); is {
		if n.pending == nil {
			n.pending = &measure.Values{}
		}
		n.pending.Merge(v)
	}
	if n.pending == nil || now.Sub(n.last) < pause {
		return
	}
	v := plan.Measured(*n.pending)
	n.journal.Add(plan.Event{Rank: -1, Measured: &v})
	n.pending, n.last = nil, now
}
