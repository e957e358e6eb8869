package study

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/stats"
	"github.com/bee-hpc/bee/internal/spec"
	"github.com/itchyny/gojq"
)

var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// The words of keys that have a choice of them.
func words() map[string][]string {
	return map[string][]string{
		"method.name":            {Robust, Beserra, Published},
		"method.reuse":           {ReuseNone, ReuseBlock},
		"method.summary":         {string(stats.ByMean), string(stats.ByMedian), string(stats.ByBest), string(stats.ByWorst), string(stats.ByTrim)},
		"copies.metric":          {"sum", "each"},
		"fair[]":                 {"same-binaries", "same-limits", "out-of-cache", "cold-files"},
		"metrics[].better":       {string(stats.Lower), string(stats.Higher)},
		"metrics[].builtin":      slices.Sorted(maps.Keys(builtins())),
		"claims[].says":          {string(stats.Equivalent), string(stats.Slower), string(stats.Faster), Steady, Steadier},
		"environments[].native":  {NativeImage, NativeHost},
		"environments[].runtime": append(slices.Clone(spec.Runtimes()), "native"),
	}
}

// sizes returns the sizes that a study can have.
func sizes() []string { return []string{"paper", "here", "smoke"} }

func (s *Study) check(d *spec.Document) {
	switch {
	case !d.Read("study"):
	case s.Name == "":
		d.ProblemOfKey("study", "such as `study: cfd`", "a study needs a name")
	case !nameForm.MatchString(s.Name):
		d.Problem("study", "letters, digits, dots, dashes and underscores", "study: %q is no name", s.Name)
	}
	s.checkVary(d)
	s.checkEnvironments(d)
	s.checkMetrics(d)
	s.checkSources(d)
	s.checkComparisons(d)
	if d.Read("vary", "zip", "when", "sizes", "environments") {
		s.checkPoints(d)
	}
}

func (s *Study) checkVary(d *spec.Document) {
	for _, name := range s.Variables {
		if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`).MatchString(name) || name == EnvironmentVariable {
			d.ProblemOfKey("vary."+name, "letters, digits and underscores", "vary: %q is no name of a variable", name)
		}
		if len(s.Vary[name]) == 0 && d.Read("vary."+name) {
			d.Problem("vary."+name, "", "vary.%s: a variable needs a value", name)
		}
	}
	zipped := map[string]bool{}
	for i, names := range s.Zip {
		for j, name := range names {
			at := fmt.Sprintf("zip[%d][%d]", i, j)
			d.OneOf(at, name, s.Variables)
			if zipped[name] {
				d.Problem(at, "", "zip: %q is given twice", name)
			}
			zipped[name] = true
		}
	}
	for size, values := range s.Sizes {
		if !slices.Contains(sizes(), size) {
			d.ProblemOfKey("sizes."+size, "one of "+strings.Join(sizes(), ", "), "sizes: %q is no size", size)
		}
		for name, list := range values {
			at := "sizes." + size + "." + name
			d.OneOf(at, name, s.Variables)
			if len(list) == 0 && d.Read(at) {
				d.Problem(at, "", "%s: a variable needs a value", at)
			}
		}
	}
	if s.When != "" {
		checkJQ(d, "when", s.When)
	}
}

func checkJQ(d *spec.Document, at, expression string) {
	q, err := gojq.Parse(expression)
	if err == nil {
		_, err = gojq.Compile(q)
	}
	if err != nil {
		d.Problem(at, "", "%s: jq: %v", at, err)
	}
}

func (s *Study) checkEnvironments(d *spec.Document) {
	if len(s.Environments) < 1 && d.Read("environments") {
		d.ProblemOfKey("environments", "such as {native: {runtime: native}, rootless: {}}", "a study needs environments")
	}
	for _, name := range s.EnvironmentNames {
		e, at := s.Environments[name], "environments."+name
		if !nameForm.MatchString(name) {
			d.ProblemOfKey(at, "letters, digits, dots, dashes and underscores", "environments: %q is no name", name)
		}
		if e.Runtime != "" {
			d.OneOf(at+".runtime", e.Runtime, words()["environments[].runtime"])
		}
		if e.Native == NativeHost && e.Keys.Has("vm") {
			d.Problem(at+".native", "leave out `vm:`", "%s.native: a virtual machine has no programs of the host", at)
		} else if e.Native != "" {
			d.OneOf(at+".native", e.Native, words()["environments[].native"])
			if e.Runtime != "native" && d.Read(at+".runtime") {
				d.ProblemOfKey(at+".native", "add `runtime: native`", "%s.native: only `runtime: native` runs without a container", at)
			}
		}
		if e.PerHost < 0 || e.Limit.Memory < 0 {
			d.ProblemOfKey(at, "", "%s: a number of less than 0 cannot be", at)
		}
	}
}

func (s *Study) checkMetrics(d *spec.Document) {
	if len(s.Metrics) == 0 && d.Read("metrics") {
		d.ProblemOfKey("metrics", `such as {time: {regex: '^Elapsed: (\S+)', unit: s, better: lower}}`, "a study needs metrics")
	}
	primary := false
	for _, name := range s.MetricNames {
		m, at := s.Metrics[name], "metrics."+name
		if !nameForm.MatchString(name) {
			d.ProblemOfKey(at, "letters, digits, dots, dashes and underscores", "metrics: %q is no name", name)
		}
		primary = primary || m.Primary
		m.check(d, at)
	}
	if !primary && len(s.Metrics) > 0 && d.Read("metrics") {
		d.ProblemOfKey("metrics", "add `primary: true` to those that decide", "metrics: none is primary, so there would be no verdict")
	}
	for i, c := range s.Check {
		at := fmt.Sprintf("check[%d]", i)
		if (c.Regex == "") == (c.JQ == "") && d.Read(at) {
			d.Problem(at, "", "%s: give either `regex` or `jq`", at)
		}
		if c.Regex != "" {
			checkPattern(d, at+".regex", c.Regex, 0, "")
		}
		if c.JQ != "" {
			checkJQ(d, at+".jq", c.JQ)
		}
	}
}

func (m *Metric) check(d *spec.Document, at string) {
	given := 0
	for _, is := range []bool{m.Regex != "", m.Table != nil, m.KeyValue != "", m.JQ != "", m.Builtin != ""} {
		if is {
			given++
		}
	}
	if given != 1 && d.Read(at) {
		d.Problem(at, "", "%s: give exactly one of `regex`, `table`, `keyvalue`, `jq` and `builtin`", at)
		return
	}
	switch {
	case m.Regex != "":
		checkPattern(d, at+".regex", m.Regex, 1, "the figure")
	case m.KeyValue != "":
		checkPattern(d, at+".keyvalue", m.KeyValue, 2, "a name and its figure")
		if m.Key == "" && d.Read(at+".key") {
			d.Problem(at, "", "%s: `keyvalue` needs the `key` to look for", at)
		}
	case m.JQ != "":
		checkJQ(d, at+".jq", m.JQ)
	case m.Builtin != "":
		d.OneOf(at+".builtin", m.Builtin, words()["metrics[].builtin"])
		return
	case m.Table != nil && d.Read(at):
		m.checkTable(d, at)
	}
	if m.Better == "" && d.Read(at+".better") {
		d.Problem(at, "add `better: lower` or `better: higher`", "%s: nothing says which values are better", at)
	} else if m.Better != "" {
		d.OneOf(at+".better", m.Better, words()["metrics[].better"])
	}
	if m.Primary && m.Unit == "" && d.Read(at+".unit") {
		d.Problem(at, "such as `unit: s`", "%s: a primary metric needs a unit", at)
	}
}

func (m *Metric) checkTable(d *spec.Document, at string) {
	if len(m.Table.Columns) == 0 {
		d.Problem(at+".table", "such as columns: [bytes, mbps, seconds]", "%s.table: a table needs `columns`", at)
		return
	}
	if m.Value == "" {
		d.Problem(at, "one of "+strings.Join(m.Table.Columns, ", "), "%s: a table needs the column that is its `value`", at)
	} else {
		d.OneOf(at+".value", m.Value, m.Table.Columns)
	}
	if m.Table.Key == "" {
		d.Problem(at+".table", "one of "+strings.Join(m.Table.Columns, ", "), "%s.table: a table needs the column that is its `key`", at)
	} else {
		d.OneOf(at+".table.key", m.Table.Key, m.Table.Columns)
	}
	if _, numeric := m.At.Number(); m.At != "" && !numeric {
		d.Problem(at+".at", "", "%s.at: %q is no number", at, m.At)
	}
	if m.Primary && m.At == "" {
		d.ProblemOfKey(at+".primary", "name one row by `at`", "%s: a primary metric is one figure, and this table has one a row", at)
	}
}

func checkPattern(d *spec.Document, at, pattern string, groups int, of string) {
	re, err := compile(pattern)
	if err != nil {
		d.Problem(at, "", "%s: %v", at, err)
		return
	}
	if re.NumSubexp() < groups {
		d.Problem(at, `put \S+ in parentheses, as in '^Time: (\S+)'`, "%s: the pattern has %d groups, want %d: %s", at, re.NumSubexp(), groups, of)
	}
}

// checkComparisons checks what is compared with what, and how.
func (s *Study) checkComparisons(d *spec.Document) {
	for i, c := range s.Contrasts {
		at := fmt.Sprintf("contrasts[%d]", i)
		if !d.Read(at, "vary", "environments") {
			continue
		}
		if c.Vary == EnvironmentVariable {
			if !slices.Contains(s.EnvironmentNames, string(c.Against)) {
				d.Problem(at+".against", "one of "+strings.Join(s.EnvironmentNames, ", "), "%s.against: the baseline %q is not among the environments", at, c.Against)
			}
			continue
		}
		d.OneOf(at+".vary", c.Vary, append([]string{EnvironmentVariable}, s.Variables...))
		if values, is := s.Vary[c.Vary]; is && !slices.Contains(values, c.Against) {
			d.Problem(at+".against", "", "%s.against: %s has no value %q", at, c.Vary, c.Against)
		}
	}
	for i, c := range s.Claims {
		at := fmt.Sprintf("claims[%d]", i)
		if !d.Read(at) {
			continue
		}
		d.OneOf(at+".environment", c.Environment, s.EnvironmentNames)
		d.OneOf(at+".metric", c.Metric, s.MetricNames)
		d.OneOf(at+".says", c.Says, words()["claims[].says"])
		if c.Says == Steady && (c.Within <= 0 || c.Against != "" || c.AgainstMetric != "" || len(c.AgainstAt) > 0) {
			d.Problem(at, "such as {says: steady, within: 5%}", "%s: steady bounds the spread of one figure by `within`, and compares with nothing", at)
		}
		for name := range c.At {
			d.OneOf(at+".at."+name, name, append([]string{"key"}, s.Variables...))
		}
		if c.Against != "" {
			d.OneOf(at+".against", c.Against, s.EnvironmentNames)
		}
		if c.AgainstMetric != "" {
			d.OneOf(at+".against_metric", c.AgainstMetric, s.MetricNames)
		}
		for name := range c.AgainstAt {
			d.OneOf(at+".against_at."+name, name, s.Variables)
		}
		if c.From == "" {
			d.Problem(at, "add `from:`, the paper and its figure", "%s: a claim needs its source", at)
		}
	}
	for i, f := range s.Fair {
		d.OneOf(fmt.Sprintf("fair[%d]", i), f, words()["fair[]"])
	}
	if s.Copies.Metric != "" {
		d.OneOf("copies.metric", s.Copies.Metric, words()["copies.metric"])
	}
	m := s.Method
	switch m.Reuse {
	case ReuseBlock:
		s.checkReuse(d)
	case "study":
		d.Problem("method.reuse", "write `block`, by which the points of one block share it", "method.reuse: a container or guest of the whole study would take memory from the environments that are measured meanwhile")
		m.Reuse = ReuseNone
	}
	for key, value := range map[string]string{"method.name": m.Name, "method.reuse": m.Reuse, "method.summary": m.Summary} {
		d.OneOf(key, value, words()[key])
	}
	if m.Compare < 0 {
		d.Problem("method.compare", "such as 4", "method.compare: %d is no number of environments", m.Compare)
	}
	if m.Margin >= 1 {
		d.Problem("method.margin", "such as 5%", "method.margin: a margin of %v calls everything equal", float64(m.Margin))
	}
}

// checkPoints composes the job of each environment at each point, and checks it as a
// Beefile.
func (s *Study) checkPoints(d *spec.Document) {
	s.base = s.Job.Keys
	if s.Job.File != "" {
		s.loadJob(d)
	}
	used := map[string]bool{}
	all := []string{""}
	for _, size := range sizes() {
		if s.Sizes[size] != nil {
			all = append(all, size)
		}
	}
	measured := 0
	for _, size := range all {
		at := "vary"
		if size != "" {
			at = "sizes." + size
		}
		points, err := s.Points(context.Background(), size)
		if err != nil {
			d.ProblemOfKey(at, "", "%v", err)
			return
		}
		if len(points) == 0 && len(s.Environments) > 0 {
			d.ProblemOfKey("when", "", "when: no combination stays")
		}
		for _, p := range points {
			if measured += len(p.Environments); measured > maxMeasured {
				d.ProblemOfKey(at, "", "a study measures at most %d combinations of values and environments", maxMeasured)
				return
			}
			if !slices.Contains(p.Environments, s.Baseline) && slices.Contains(s.EnvironmentNames, s.Baseline) {
				d.ProblemOfKey("when", "", "when: %s has no baseline %q to compare with", p.ID(s.Variables), s.Baseline)
			}
			if _, err := s.CopiesAt(&p); err != nil {
				d.ProblemOfKey("copies.count", "a number, or a variable such as ${n}", "%v", err)
				return
			}
			for _, name := range p.Environments {
				if _, err := s.CoresAt(&p, name); err != nil {
					d.ProblemOfKey("environments."+name+".limit.cores", "a number, or a variable such as ${n}", "%v", err)
					return
				}
				if job := s.compose(d, &p, name, used); job != nil && job.Run == nil && s.Method.Reuse == ReuseBlock {
					d.Problem("method.reuse", "add `run:` to the job", "method.reuse: points share a container by their commands, and the job of %s has none", name)
					return
				}
			}
		}
	}
	for _, name := range s.Variables {
		if !used[name] && !strings.Contains(s.When, "."+name) && d.Read("job", "environments") {
			d.ProblemOfKey("vary."+name, "write ${"+name+"} where its value belongs", "vary: nothing uses %q", name)
		}
	}
}

func (s *Study) loadJob(d *spec.Document) {
	file := s.Job.File
	if !filepath.IsAbs(file) {
		file = filepath.Join(s.Dir, file)
	}
	data, err := spec.ReadText(file)
	if err == nil {
		s.base, err = spec.PartOf(file, data)
	}
	if err != nil {
		d.Problem("job.file", "", "job.file: %v", err)
	}
}
