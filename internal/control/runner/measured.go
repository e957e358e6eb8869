package runner

import (
	"time"

	"github.com/bee-hpc/bee/internal/measure"
	protocol "github.com/bee-hpc/bee/internal/plan"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/bee-hpc/bee/internal/state"
)

// measured records the progress and metrics of a run, as its head reports them. A head
// that floods the controller has the file written no more often.
type measured struct {
	rec     *record
	all     *measure.Record // nil: not read yet
	written time.Time
	pending bool
}

// measuredPause is the least time between two writes. Heads report less often.
const measuredPause = 500 * time.Millisecond

// metricsOf are the names of a job's metrics.
func metricsOf(job *spec.Job) map[string]bool {
	names := make(map[string]bool, len(job.Metrics))
	for name := range job.Metrics {
		names[name] = true
	}
	return names
}

// add adds the numbers of an event. Another controller gets the same events again.
func (m *measured) add(e protocol.Event) {
	if m.all == nil {
		m.all = m.read()
	}
	if m.all.Add(m.rec.N, e.Seq, e.Time, measure.Values(*e.Measured)) {
		m.pending = true
	}
	if time.Since(m.written) >= measuredPause {
		m.write()
	}
}

// read reads what is recorded. A file that cannot be read is replaced, as no decision
// depends on it.
func (m *measured) read() *measure.Record {
	all, err := state.ReadMeasured(m.rec.of.c.Store.RunDir(m.rec.of.run.ID))
	if err != nil {
		m.rec.of.c.Log.Debug("read what the run has measured", "run", m.rec.of.run.ID, "err", err)
		return &measure.Record{}
	}
	return &all
}

// write writes what has not been written.
func (m *measured) write() {
	if !m.pending {
		return
	}
	m.written = time.Now()
	if err := state.WriteMeasured(m.rec.of.c.Store.RunDir(m.rec.of.run.ID), m.all); err != nil { // the next one is tried, as the disk may be full for a while
		m.rec.of.c.Log.Debug("record what the run has measured", "run", m.rec.of.run.ID, "err", err)
		return
	}
	m.pending = false
}
