package measure

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Groups of a pattern: that of progress has what is done, and perhaps the total.
const (
	ProgressGroups = 2
	MetricGroups   = 1
)

// MaxMetrics bounds the metrics of a job.
const MaxMetrics = 16

// Values are the newest numbers of a job. Without a Total there is no progress.
type Values struct {
	Done    float64            `json:"done,omitempty"`
	Total   float64            `json:"total,omitempty"`
	Metrics map[string]float64 `json:"metrics,omitempty"`
}

// Merge takes over values that are newer.
func (v *Values) Merge(newer Values) {
	if newer.Total > 0 {
		v.Done, v.Total = newer.Done, newer.Total
	}
	for name, n := range newer.Metrics {
		if v.Metrics == nil {
			v.Metrics = map[string]float64{}
		}
		v.Metrics[name] = n
	}
}

// Reader reads progress and metrics from what a job prints. Its methods, and the Add of
// its streams, may be called by several goroutines.
type Reader struct {
	progress []matched
	metrics  map[string]Pattern
	// total reads the total from a text; nil: it is in no file.
	total func(text string) bool

	mu    sync.Mutex
	lines []*Lines
	done  Values // the newest progress
	fresh Values // what has come since the last tick
}

// matched is a pattern, and what is called with the groups of lines that match.
type matched struct {
	pattern Pattern
	found   func(groups []string)
}

// NewReader makes a reader of a source of progress and of patterns of metrics.
func NewReader(progress Source, metrics map[string]string) (*Reader, error) {
	r := &Reader{metrics: map[string]Pattern{}}
	if err := r.follows(progress); err != nil {
		return nil, err
	}
	for name, text := range metrics {
		p, err := ParsePattern(text, MetricGroups)
		if err != nil {
			return nil, err
		}
		r.metrics[name] = p
	}
	return r, nil
}

// Stream is one stream of output, whose lines are whole by themselves.
type Stream struct {
	reader *Reader
	lines  []*Lines
}

// Stream begins a stream.
func (r *Reader) Stream() *Stream {
	s := &Stream{reader: r}
	if len(r.progress) > 0 { // together, as the order of their lines matters
		s.lines = append(s.lines, newLines(r.progress...))
	}
	for _, name := range slices.Sorted(maps.Keys(r.metrics)) {
		s.lines = append(s.lines, NewLines(r.metrics[name], func(groups []string) { r.measured(name, groups) }))
	}
	for _, l := range s.lines { // all patterns share what one may cost
		l.most = max(1, maxSteps*len(l.patterns)/(len(r.progress)+len(r.metrics)))
		l.steps = l.most
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, s.lines...)
	return s
}

// Add reads a piece of output. A carriage return ends a line too, as programs that write over
// their last line have no other end.
func (s *Stream) Add(piece []byte) {
	if bytes.IndexByte(piece, '\r') >= 0 {
		piece = bytes.ReplaceAll(piece, []byte("\r"), []byte("\n"))
	}
	s.reader.mu.Lock()
	defer s.reader.mu.Unlock()
	for _, l := range s.lines {
		l.Add(piece)
	}
}

// progressed reads the groups of progress. One is a percentage.
func (r *Reader) progressed(groups []string) {
	done, is := Number(groups[0])
	total := 100.0
	if len(groups) > 1 {
		var more bool
		total, more = Number(groups[1])
		is = is && more
	}
	if is {
		r.reached(done, total)
	}
}

// reached takes over how much is done.
func (r *Reader) reached(done, total float64) {
	if done < 0 || total <= 0 {
		return
	}
	done = min(done, total)
	if r.done.Done != done || r.done.Total != total {
		r.done = Values{Done: done, Total: total}
		r.fresh.Done, r.fresh.Total = done, total
	}
}

// File reads progress from the text of a file: a percentage, or what is done and the total.
func (r *Reader) File(text string) {
	words := strings.Fields(text)
	if len(words) == 0 || len(words) > ProgressGroups {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.progressed(words)
}

func (r *Reader) measured(name string, groups []string) {
	if n, is := Number(groups[0]); is {
		r.fresh.Merge(Values{Metrics: map[string]float64{name: n}})
	}
}

// Tick returns the newest values of what has come since the last call, and whether there
// are any. Callers call Tick about once a second, and when the output has ended.
func (r *Reader) Tick() (newest Values, is bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range r.lines {
		l.Tick()
	}
	newest, r.fresh = r.fresh, Values{}
	return newest, newest.Total > 0 || len(newest.Metrics) > 0
}
