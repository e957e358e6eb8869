package study

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/itchyny/gojq"
)

// Metric is a figure of the job, and where it is read from. Exactly one of Regex, Table,
// KeyValue, JQ and Builtin is given.
type Metric struct {
	// Regex has one group, the figure. Its last match counts.
	Regex string `yaml:"regex"`
	// Table is read from lines that have a number in each column.
	Table *Table `yaml:"table"`
	// KeyValue has two groups, a name and the figure.
	KeyValue string `yaml:"keyvalue"`
	// JQ returns one number.
	JQ string `yaml:"jq"`
	// Builtin is a figure that is taken outside of the job.
	Builtin string `yaml:"builtin"`

	// File is one of the job's outputs; default: what the job prints.
	File string `yaml:"file"`
	// Key is the name that KeyValue looks for.
	Key string `yaml:"key"`
	// Value is the column of the table.
	Value string `yaml:"value"`
	// At is the key of the table's row; absent: all rows, a sweep.
	At Value `yaml:"at"`

	Unit    string `yaml:"unit"`
	Better  string `yaml:"better"`
	Primary bool   `yaml:"primary"`
}

// Table has named columns.
type Table struct {
	File    string   `yaml:"file"`
	Columns []string `yaml:"columns"`
	Key     string   `yaml:"key"`
}

// Sweep reports whether a metric has a figure for each row of a table.
func (m *Metric) Sweep() bool { return m.Table != nil && m.At == "" }

// SourceFile is the output that the metric is read from; "": what the job prints.
func (m *Metric) SourceFile() string {
	if m.Table != nil && m.Table.File != "" {
		return m.Table.File
	}
	return m.File
}

type builtin struct{ unit, better string }

func builtins() map[string]builtin {
	return map[string]builtin{
		"seconds": {"s", "lower"}, "start_seconds": {"s", "lower"}, "host_cpu": {"s", "lower"},
		"max_rss": {"bytes", "lower"}, "energy": {"J", "lower"}, "cost": {"cost", "lower"},
	}
}

// Figure is one value of a metric. Key is that of a table's row, else "".
type Figure struct {
	Key   string
	Value float64
}

// Bounds of what is read from an output.
const (
	maxRows    = 10_000
	jqTime     = 5 * time.Second
	jqOutputs  = 16
	lastLines  = 5
	longestEnd = 400
)

// Extract reads the figures of a metric, of a checked study, from the text of its SourceFile. A builtin metric
// has none there.
func (m *Metric) Extract(ctx context.Context, text []byte) ([]Figure, error) {
	switch {
	case m.Regex != "":
		return one(lastMatch(m.Regex, 1, string(text), func(g []string) (string, bool) { return g[1], true }))
	case m.KeyValue != "":
		return one(lastMatch(m.KeyValue, 2, string(text), func(g []string) (string, bool) { return g[2], g[1] == m.Key }))
	case m.JQ != "":
		v, err := query(ctx, m.JQ, text)
		if err != nil {
			return nil, err
		}
		x, ok := number(v)
		if !ok {
			return nil, fmt.Errorf("jq %q: the result is %s, want a number", m.JQ, typeOf(v))
		}
		return one(x, nil)
	case m.Table != nil:
		return m.rows(string(text))
	}
	return nil, errors.New("the metric is not read from an output")
}

func one(v float64, err error) ([]Figure, error) {
	if err != nil {
		return nil, err
	}
	return []Figure{{Value: v}}, nil
}

// lastMatch returns the figure of the last match that choose accepts.
func lastMatch(pattern string, groups int, text string, choose func(groups []string) (string, bool)) (float64, error) {
	re, err := compile(pattern)
	if err != nil {
		return 0, err
	}
	if re.NumSubexp() < groups {
		return 0, fmt.Errorf("%q has %d groups, want %d", pattern, re.NumSubexp(), groups)
	}
	found, any := "", false
	for _, g := range re.FindAllStringSubmatch(text, -1) {
		if v, ok := choose(g); ok {
			found, any = v, true
		}
	}
	if !any {
		return 0, fmt.Errorf("%q matches nothing%s", pattern, Ending(text))
	}
	return parseNumber(found)
}

func parseNumber(text string) (float64, error) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("%q is no number", text)
	}
	return x, nil
}

// Ending shows the last lines of an output.
func Ending(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	end := strings.Join(lines[max(0, len(lines)-lastLines):], "\n  ")
	if strings.TrimSpace(end) == "" {
		return "; the output is empty"
	}
	if len(end) > longestEnd {
		end = "…" + strings.ToValidUTF8(end[len(end)-longestEnd:], "")
	}
	return "; the output ends with:\n  " + end
}

func compile(pattern string) (*regexp.Regexp, error) { return regexp.Compile("(?m)" + pattern) }

// rows reads a table: lines with as many numbers as it has columns.
func (m *Metric) rows(text string) ([]Figure, error) {
	t := m.Table
	key, value := slices.Index(t.Columns, t.Key), slices.Index(t.Columns, m.Value)
	var figures []Figure
	for line := range strings.Lines(text) {
		cells := strings.Fields(line)
		if len(cells) != len(t.Columns) {
			continue
		}
		numbers := make([]float64, len(cells))
		whole := true
		for i, cell := range cells {
			var err error
			if numbers[i], err = parseNumber(cell); err != nil {
				whole = false
			}
		}
		if !whole {
			continue
		}
		f := Figure{Value: numbers[value]}
		if key >= 0 {
			f.Key = strconv.FormatFloat(numbers[key], 'g', -1, 64)
		}
		if at, ok := m.At.Number(); ok {
			if numbers[key] != at {
				continue
			}
			f.Key = ""
			figures = figures[:0] // the last row counts, as in a pattern
		}
		if len(figures) == maxRows {
			return nil, fmt.Errorf("the table has more than %d rows", maxRows)
		}
		figures = append(figures, f)
	}
	if len(figures) == 0 {
		if m.At != "" {
			return nil, fmt.Errorf("the table has no row whose %s is %s%s", t.Key, m.At, Ending(text))
		}
		return nil, fmt.Errorf("no line has %d numbers (%s)%s", len(t.Columns), strings.Join(t.Columns, ", "), Ending(text))
	}
	return figures, nil
}

// query runs a jq expression over a JSON text, for its one result.
func query(ctx context.Context, expression string, text []byte) (any, error) {
	q, err := gojq.Parse(expression)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", expression, err)
	}
	var input any
	if err := json.Unmarshal(text, &input); err != nil {
		return nil, fmt.Errorf("the output is no JSON (%w)%s", err, Ending(string(text)))
	}
	return run(ctx, q, expression, input)
}

func run(ctx context.Context, q *gojq.Query, expression string, input any) (any, error) {
	code, err := gojq.Compile(q)
	if err != nil {
		return nil, fmt.Errorf("jq %q: %w", expression, err)
	}
	ctx, cancel := context.WithTimeout(ctx, jqTime)
	defer cancel()
	var results []any
	iter := code.RunWithContext(ctx, input)
	for len(results) < jqOutputs {
		v, more := iter.Next()
		if !more {
			break
		}
		if err, is := v.(error); is {
			return nil, fmt.Errorf("jq %q: %w", expression, err)
		}
		results = append(results, v)
	}
	switch len(results) {
	case 1:
		return results[0], nil
	case 0:
		return nil, fmt.Errorf("jq %q: it has no result, want one", expression)
	}
	return nil, fmt.Errorf("jq %q: it has several results, want one", expression)
}

func number(v any) (float64, bool) {
	switch x := v.(type) {
	case int:
		return float64(x), true
	case float64:
		return x, !math.IsNaN(x) && !math.IsInf(x, 0)
	}
	return 0, false
}

func typeOf(v any) string {
	if v == nil {
		return "null"
	}
	return "a " + gojq.TypeOf(v)
}
