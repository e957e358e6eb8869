package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the answer and the tables.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.title())
	for _, s := range r.Sentences {
		fmt.Fprintf(&b, "* %s\n", cell(s))
	}
	for _, part := range []struct {
		title   string
		primary bool
	}{{"Verdicts", true}, {"Exploratory", false}} {
		rows := r.verdicts(part.primary)
		if len(rows) == 0 {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| figure | environment | verdict | change, worse is positive | |\n|---|---|---|---|---|\n", part.title)
		for _, v := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(v.what), cell(v.environment), v.verdict, v.cost, cell(v.detail))
		}
	}
	if rows := r.scalingRows(); len(rows) > 0 {
		b.WriteString("\n## Scaling\n\n| figure | environment | speedup | efficiency |\n|---|---|---|---|\n")
		for _, s := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(s.what), cell(s.environment), s.speedup, s.efficiency)
		}
	}
	if rows := r.meanRows(); len(rows) > 0 {
		fmt.Fprintf(&b, "\n## Means, as in the dissertation\n\n%s\n\n| figure | environment | change of the mean | |\n|---|---|---|---|\n", r.meansText())
		for _, m := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", cell(m.what), cell(m.environment), m.change, m.word)
		}
	}
	if rows := r.publishedRows(); len(rows) > 0 {
		fmt.Fprintf(&b, "\n## The %s of each, as in the paper\n\n| figure | environment | value | baseline | change |\n|---|---|---|---|---|\n", r.summary())
		for _, s := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(s.what), cell(s.environment), s.value, s.baseline, s.change)
		}
	}
	if rows := r.claimRows(); len(rows) > 0 {
		b.WriteString("\n## Claims of the paper\n\n| claim | claimed change | measured | | from |\n|---|---|---|---|---|\n")
		for _, c := range rows {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(c.claim), c.claimed, c.measured, cell(c.agreement), cell(c.from))
		}
	}
	b.WriteString("\n## Medians\n\n| figure | environment | median | values |\n|---|---|---|---|\n")
	for _, v := range r.Result.Values {
		name := v.Metric
		if v.Key != "" {
			name += " at " + v.Key
		}
		if v.Point != "" {
			name += ", " + v.Point
		}
		fmt.Fprintf(&b, "| %s | %s | %s %s | %d |\n", cell(name), cell(v.Environment), number(v.Median), r.unit(v.Metric), len(v.Figures))
	}
	rows, texts := r.hostRows(), r.hostTexts()
	if len(rows)+len(texts) > 0 {
		b.WriteString("\n## Hosts\n")
	}
	for _, text := range texts {
		fmt.Fprintf(&b, "\n%s\n", cell(text))
	}
	if len(rows) > 0 {
		b.WriteString("\n| environment | runtime | hosts | measurements | when |\n|---|---|---|---|---|\n")
	}
	for _, x := range rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", cell(x.environment), cell(x.runtime), cell(x.hosts), x.measured, x.when)
	}
	fmt.Fprintf(&b, "\n%s\n", r.provenance())
	if r.Plan.Command != "" {
		fmt.Fprintf(&b, "\nTo repeat it:\n\n    %s\n", strings.ReplaceAll(r.Plan.Command, "\n", " "))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "<", "&lt;").Replace(text)
}

func (r *Report) unit(metric string) string {
	for _, m := range r.Plan.Metrics {
		if m.Name == metric {
			return m.Unit
		}
	}
	return ""
}

// provenance is one sentence with what the figures depend on.
func (r *Report) provenance() string {
	m := r.Plan.Machine
	parts := []string{fmt.Sprintf("Study %s by bee %s on %s", r.Plan.Study, m.Bee, r.Plan.Created.UTC().Format("2006-01-02 15:04 MST"))}
	if m.CPU != "" {
		parts = append(parts, fmt.Sprintf("%s, %d cores", m.CPU, m.Cores))
	}
	if m.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB of memory", float64(m.MemoryBytes)/(1<<30)))
	}
	if m.Kernel != "" {
		parts = append(parts, "kernel "+m.Kernel)
	}
	for _, s := range r.Plan.Sources {
		text := fmt.Sprintf("%s from sources of SHA-256 %s", s.Name, s.SHA256)
		if s.Commit != "" {
			text += " at commit " + s.Commit
		}
		parts = append(parts, text)
	}
	parts = append(parts, fmt.Sprintf("method %s, margin %s %%, seed %d, %d whole blocks", r.Plan.Method, number(100*r.Plan.Margin), r.Plan.Seed, r.Result.Blocks))
	if r.Plan.Reuse != "" {
		parts = append(parts, "points of a block shared containers and guests (reuse: "+r.Plan.Reuse+")")
	}
	return strings.Join(parts, "; ") + "."
}
