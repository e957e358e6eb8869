package measure

import (
	"cmp"
	"slices"
	"strings"

	"github.com/bee-hpc/bee/internal/bench/record"
)

// hiddenSecret is what results have in place of the value of a secret.
const hiddenSecret = "***"

// LeastSecret is the least length of a secret. A shorter text is a part of many others, and leaving
// it out of them would change figures.
const LeastSecret = 4

// hidden is what a job has left, without the values of secrets. A job may print them, and name files
// by them.
func (o *Outcome) hidden(text []byte) []byte {
	if len(o.Secrets) == 0 {
		return text
	}
	out := o.hide(string(text))
	if len(text) >= maxOutput { // the end of what is cut may be the beginning of a value
		longest := slices.MaxFunc(o.Secrets, func(a, b string) int { return cmp.Compare(len(a), len(b)) })
		out = out[:max(0, len(out)-len(longest))]
	}
	return []byte(out)
}

// hide replaces the values of secrets in a text, and of those with several lines each line too.
func (o *Outcome) hide(text string) string {
	var values []string
	for _, v := range o.Secrets {
		if v == "" {
			continue
		}
		values = append(values, v)
		for line := range strings.Lines(v) {
			if line = strings.TrimSpace(line); len(line) >= LeastSecret {
				values = append(values, line)
			}
		}
	}
	slices.SortFunc(values, func(a, b string) int { return cmp.Compare(len(b), len(a)) }) // the whole before its parts
	pairs := make([]string, 0, 2*len(values))
	for _, v := range values {
		pairs = append(pairs, v, hiddenSecret)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// hideReasons replaces the values of secrets in the reason of a failure.
func (o *Outcome) hideReasons() {
	o.Failed, o.Remedy = o.hide(o.Failed), o.hide(o.Remedy)
}

// hideRow replaces the values of secrets in what a row has of its job: texts of failures, and names of
// files and variables that a job may choose. Figures are read from a text without the values.
func (o *Outcome) hideRow(row *record.Row) {
	if len(o.Secrets) == 0 {
		return
	}
	row.Error, row.VMCommand = o.hide(row.Error), o.hide(row.VMCommand)
	for _, texts := range []*[]string{&row.Flags, &row.Unfair, &row.Foreign} {
		hidden := make([]string, len(*texts))
		for i, text := range *texts {
			hidden[i] = o.hide(text)
		}
		*texts = hidden
	}
	for _, names := range []*map[string]string{&row.Programs, &row.MPISettings} {
		hidden := make(map[string]string, len(*names))
		for name, value := range *names {
			hidden[o.hide(name)] = o.hide(value)
		}
		*names = hidden
	}
}
