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

// hideRow replaces the values of secrets in a row, whose files a job may have named by them.
func (o *Outcome) hideRow(row *record.Row) error {
	if len(o.Secrets) == 0 {
		return nil
	}
	programs := make(map[string]string, len(row.Programs))
	for path, sum := range row.Programs {
		programs[o.hide(path)] = sum
	}
	status := row.Status
	if err := record.Rewrite(row, o.hide); err != nil {
		return err
	}
	row.Status, row.Programs = status, programs
	return nil
}
