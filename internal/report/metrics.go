package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/state"
)

// Metrics are numbers of runs, sites and times, as OpenMetrics. All are gauges, as a run
// that is removed leaves them: they are those of the runs on record.
type Metrics struct {
	now      time.Time
	families []*family
	// sites are the sites whose attempts are counted, though there may be none.
	sites map[string]bool
}

// family is one metric with its values by labels.
type family struct {
	name, unit, help string
	labels           []string
	values           map[labels]float64
}

// labels are the values of the labels of a metric, of which there are two at most.
type labels [2]string

// The places of the metrics in families.
const (
	metricBuild = iota
	metricRuns
	metricAttempts
	metricEnded
	metricRunTime
	metricAttemptTime
	metricCost
)

// NewMetrics returns the metrics of no run. Sites are those of the sites file.
func NewMetrics(version string, sites []string, now time.Time) *Metrics {
	m := &Metrics{now: now, sites: map[string]bool{}, families: []*family{
		{name: "bee_build_info", help: "version of bee", labels: []string{"version"}},
		{name: "bee_runs", help: "runs on record, by state", labels: []string{"state"}},
		{name: "bee_attempts", help: "attempts that are not closed, by site and state", labels: []string{"site", "state"}},
		{name: "bee_attempts_ended", help: "attempts on record that have ended, by site and verdict", labels: []string{"site", "verdict"}},
		{name: "bee_run_time_seconds", unit: "seconds", help: "time of the runs on record, by use", labels: []string{"use"}},
		{name: "bee_attempt_time_seconds", unit: "seconds", help: "time of the attempts on record, by site and use", labels: []string{"site", "use"}},
		{name: "bee_cost", help: "cost of the attempts on record, by site and currency", labels: []string{"site", "currency"}},
	}}
	for _, f := range m.families {
		f.values = map[labels]float64{}
	}
	m.add(metricBuild, 1, version)
	for _, s := range state.RunStates() {
		m.add(metricRuns, 0, string(s))
	}
	for _, u := range Uses() {
		m.add(metricRunTime, 0, string(u.On))
	}
	for _, s := range sites {
		m.site(s)
	}
	return m
}

// site has the attempts of a site counted.
func (m *Metrics) site(name string) {
	if m.sites[name] {
		return
	}
	m.sites[name] = true
	for _, s := range state.AttemptStates() {
		if s != state.Closed {
			m.add(metricAttempts, 0, name, string(s))
		}
	}
}

// Add adds a run. The price of a site is for attempts that have none on record.
func (m *Metrics) Add(r state.Run, attempts []state.Attempt, priceOf func(site string) state.Price) {
	m.add(metricRuns, 1, string(r.State))
	for use, took := range Spent(r, attempts, m.now) {
		m.add(metricRunTime, took.Seconds(), string(use))
	}
	for _, at := range attempts {
		m.site(at.Site)
		if at.State != state.Closed {
			m.add(metricAttempts, 1, at.Site, string(at.State))
		}
		if at.Verdict != state.NoVerdict {
			m.add(metricEnded, 1, at.Site, string(at.Verdict))
		}
		for phase, took := range at.Phases {
			m.add(metricAttemptTime, took.Seconds(), at.Site, string(phaseOf(phase)))
		}
		var price state.Price
		if at.Price == nil {
			price = priceOf(at.Site)
		}
		if at.Price != nil || price.Hour > 0 {
			m.add(metricCost, at.Cost(price, m.now), at.Site, at.Currency(price))
		}
	}
}

func (m *Metrics) add(metric int, value float64, of ...string) {
	var key labels
	copy(key[:], of)
	m.families[metric].values[key] += value
}

// texts are the values of a family by the text of their labels.
func (f *family) texts() map[string]float64 {
	all := map[string]float64{}
	for key, value := range f.values {
		var texts []string
		for i, name := range f.labels {
			texts = append(texts, name+`="`+labelValue(key[i])+`"`)
		}
		all["{"+strings.Join(texts, ",")+"}"] += value
	}
	return all
}

// labelValue is a text as the value of a label. Names of records are another user's where
// a run was adopted.
func labelValue(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text)
}

// WriteTo writes the metrics in the order of their names' list, and of labels.
func (m *Metrics) WriteTo(w io.Writer) (int64, error) {
	var b strings.Builder
	for _, f := range m.families {
		fmt.Fprintf(&b, "# TYPE %s gauge\n", f.name)
		if f.unit != "" {
			fmt.Fprintf(&b, "# UNIT %s %s\n", f.name, f.unit)
		}
		fmt.Fprintf(&b, "# HELP %s %s\n", f.name, f.help)
		values := f.texts()
		for _, labels := range slices.Sorted(maps.Keys(values)) {
			b.WriteString(f.name + labels + " " + strconv.FormatFloat(values[labels], 'g', -1, 64) + "\n")
		}
	}
	b.WriteString("# EOF\n")
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
