package measure

import (
	"maps"
	"slices"
	"time"
)

// Record is what a run has measured, over all its attempts.
type Record struct {
	// Attempt and Event are those of the newest values: each event counts once.
	Attempt int   `json:"attempt"`
	Event   int64 `json:"event"`
	// Done and Total are the newest progress; no Total: there is none.
	Done  float64 `json:"done,omitempty"`
	Total float64 `json:"total,omitempty"`
	// Percent is progress over time, and Begin its first point in the attempt, from which
	// the time left is estimated.
	Percent *Series `json:"percent,omitempty"`
	Begin   Point   `json:"begin,omitzero"`
	// Metrics are the metrics by name.
	Metrics map[string]*Series `json:"metrics,omitempty"`
}

// Add adds values that an event of an attempt had, and reports whether they are new.
func (r *Record) Add(attempt int, event int64, at time.Time, v Values) bool {
	if attempt < r.Attempt || attempt == r.Attempt && event <= r.Event {
		return false
	}
	if attempt > r.Attempt {
		r.Begin = Point{}
	}
	r.Attempt, r.Event = attempt, event
	if v.Total > 0 {
		r.Done, r.Total = v.Done, v.Total
		if r.Percent == nil {
			r.Percent = &Series{}
		}
		p := Point{Time: at, Value: r.percent()}
		r.Percent.Add(p)
		if r.Begin.Time.IsZero() {
			r.Begin = p
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.Metrics)) {
		if r.Metrics == nil {
			r.Metrics = map[string]*Series{}
		}
		s := r.Metrics[name]
		if s == nil {
			if len(r.Metrics) == MaxMetrics {
				continue
			}
			s = &Series{}
			r.Metrics[name] = s
		}
		s.Add(Point{Time: at, Value: v.Metrics[name]})
	}
	return true
}

func (r *Record) percent() float64 { return min(100, max(0, 100*(r.Done/r.Total))) }

// Progress is how far a job is.
type Progress struct {
	Percent float64   `json:"percent"`
	Done    float64   `json:"done"`
	Total   float64   `json:"total"`
	Time    time.Time `json:"time"`
	// LeftSeconds is the time left, at the speed of the present attempt; 0: it is not known.
	LeftSeconds float64 `json:"left_seconds,omitempty"`
}

// maxLeft bounds the time left in seconds: what is longer is no estimate.
const maxLeft = 10 * 365 * 24 * 3600

// Progress returns the newest progress, or nil. The time left is estimated where the
// attempt runs.
func (r *Record) Progress(runs bool, now time.Time) *Progress {
	if r.Total <= 0 || r.Percent == nil || len(r.Percent.Points) == 0 {
		return nil
	}
	newest := r.Percent.Points[len(r.Percent.Points)-1]
	p := &Progress{Percent: newest.Value, Done: r.Done, Total: r.Total, Time: newest.Time}
	took, done := newest.Time.Sub(r.Begin.Time).Seconds(), newest.Value-r.Begin.Value
	if runs && !r.Begin.Time.IsZero() && took > 0 && done > 0 {
		left := (100-newest.Value)*took/done - max(0, now.Sub(newest.Time).Seconds())
		if left > 0 && left < maxLeft {
			p.LeftSeconds = left
		}
	}
	return p
}

// Newest returns the newest point of each metric, or nil.
func (r *Record) Newest() map[string]Point {
	var newest map[string]Point
	for name, s := range r.Metrics {
		if s == nil || len(s.Points) == 0 {
			continue
		}
		if newest == nil {
			newest = map[string]Point{}
		}
		newest[name] = s.Points[len(s.Points)-1]
	}
	return newest
}
