package report

import (
	"bytes"
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/bee-hpc/bee/internal/bench/evaluate"
)

// paths are those of files. A unit such as B/s is none.
var paths = regexp.MustCompile(`(^|[^A-Za-z0-9_.…/~])(~|\.{1,2})?(/+[^\s/:;,"'()<>=|]+)+/*`)

// Least lengths of names that are dropped, as shorter ones are common words. One with a digit, such as n1, is none.
const (
	leastName     = 3
	leastNumbered = 2
)

// Redact drops paths and the names of hosts, and the names that are given, such as a user's.
func (r *Report) Redact(names ...string) error {
	names = append(slices.Clone(names), r.Plan.Machine.Host, r.Plan.Site)
	for name, to := range r.Plan.Mapped {
		names = append(names, to)
		r.Plan.Mapped[name] = "another site"
	}
	names = append(names, r.redactHosts()...)
	r.Plan.Machine.Host, r.Plan.Dir, r.Plan.File, r.Plan.Site, r.Plan.Command, r.Plan.ComparedWith = "", "", "", "", "", ""
	for i := range r.Rows {
		row := &r.Rows[i]
		names = append(append(names, row.Hosts...), row.Site)
		row.Error, row.Run, row.Log, row.Programs, row.Foreign, row.Hosts, row.Site, row.VMCommand = "", "", "", nil, nil, nil, "", ""
	}
	for i := range r.Plan.Environments {
		e := &r.Plan.Environments[i]
		names = append(names, e.Site)
		e.Site = ""
		if e.Dropped != "" {
			e.Dropped, e.Remedy = "not measured here", ""
		}
	}
	for i := range r.Result.Failed {
		r.Result.Failed[i].Reason, r.Result.Failed[i].Remedy = "not measured here", ""
	}
	r.Sentences = evaluate.Sentences(&r.Plan, &r.Result)
	if r.Comparison != nil {
		r.Compare(r.Comparison)
	}
	return r.rewrite(cleaner(names))
}

// withShort are names of hosts, and those that they have within their domains.
func withShort(names []string) []string {
	all := slices.Clone(names)
	for _, name := range names {
		if first, _, is := strings.Cut(name, "."); is && strings.ContainsFunc(first, unicode.IsLetter) { // no address
			all = append(all, first)
		}
	}
	return all
}

// cleaner returns a function that drops names and paths from a text.
func cleaner(names []string) func(string) string {
	names = withShort(names)
	slices.SortFunc(names, func(a, b string) int { // a long name before one that is a part of it
		return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
	})
	var words []*regexp.Regexp
	for _, name := range slices.Compact(names) {
		if len(name) >= leastName || len(name) >= leastNumbered && strings.ContainsFunc(name, unicode.IsDigit) {
			words = append(words, regexp.MustCompile(`(^|[^A-Za-z0-9])`+regexp.QuoteMeta(name)+`($|[^A-Za-z0-9])`))
		}
	}
	return func(text string) string {
		for _, w := range words {
			for w.MatchString(text) {
				text = w.ReplaceAllString(text, "${1}…${2}")
			}
		}
		return paths.ReplaceAllString(text, "${1}…")
	}
}

// rewrite changes all texts of a report, wherever they are.
func (r *Report) rewrite(change func(string) string) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	var all any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber() // a seed is no float
	if err := d.Decode(&all); err != nil {
		return err
	}
	if text, err = json.Marshal(rewritten(all, change)); err != nil {
		return err
	}
	*r = Report{}
	return json.Unmarshal(text, r)
}

func rewritten(v any, change func(string) string) any {
	switch x := v.(type) {
	case string:
		return change(x)
	case []any:
		for i := range x {
			x[i] = rewritten(x[i], change)
		}
	case map[string]any:
		for k := range x { // names of fields, variables and metrics
			x[k] = rewritten(x[k], change)
		}
	}
	return v
}
