package evaluate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/bench/record"
	"github.com/bee-hpc/bee/internal/bench/stats"
)

// Sentences returns the answer, a sentence or two for each environment, and last what the
// machine can resolve. Advice follows from the verdicts alone:
//
//   - all primary figures equivalent or faster: use it
//   - some slower, all decided: use it where those figures do not bound the job
//   - any undecided, or equivalent within a wider margin only: no advice
func Sentences(p *record.Plan, r *Result) []string {
	var all []string
	for _, e := range p.Environments {
		if e.Name != p.Baseline && e.Dropped == "" {
			all = append(all, sentence(p, r, e))
		}
	}
	if r.BaselineFailed > 0 {
		all = append(all, fmt.Sprintf("%s, the baseline, failed in %d of %d measurements: nothing can be compared with those.", p.Baseline, r.BaselineFailed, r.BaselineOf))
	}
	for _, f := range r.Failed {
		all = append(all, strings.TrimSpace(fmt.Sprintf("%s: not measured: %s. %s", f.Environment, strings.TrimSuffix(f.Reason, "."), f.Remedy)))
	}
	all = append(all, unproven(p)...)
	if p.Busy {
		all = append(all, "Other processes used the processors when measuring began or continued. Measure again on a quiet machine, or wait longer by --wait.")
	}
	if s := flagsSentence(r.Flags); s != "" {
		all = append(all, s)
	}
	if s := ClaimsSentence(r.Claims); s != "" {
		all = append(all, s)
	}
	if margin := widest(r); margin > p.Margin {
		text := "nothing"
		if !math.IsInf(margin, 0) {
			text = percent(margin)
		}
		all = append(all, fmt.Sprintf("%s against itself differs by more than %s: this machine cannot resolve %s now. It resolves %s. Measure more blocks, or on a quiet machine.",
			p.Baseline, percent(p.Margin), percent(p.Margin), text))
	}
	return all
}

// unproven names environments that nobody has measured before, or with whose component bee was never tried.
func unproven(p *record.Plan) (all []string) {
	untested, untried := []string{}, map[string][]string{}
	var components []string
	for _, e := range p.Environments {
		switch {
		case e.Dropped != "":
		case e.Untried != "":
			if untried[e.Untried] == nil {
				components = append(components, e.Untried)
			}
			untried[e.Untried] = append(untried[e.Untried], e.Name)
		case e.Untested:
			untested = append(untested, e.Name)
		}
	}
	for _, c := range components {
		all = append(all, fmt.Sprintf("%s: bee was never tried with %s, so look at these figures with doubt.", strings.Join(untried[c], ", "), c))
	}
	if len(untested) > 0 {
		all = append(all, fmt.Sprintf("%s: the authors of the study have never measured it, so look at these figures with doubt.", strings.Join(untested, ", ")))
	}
	return all
}

// flagsSentence names what stands beside the verdicts, with the number of measurements.
func flagsSentence(flags []Flag) string {
	rows := map[string]int{}
	var texts []string
	for _, f := range flags {
		if rows[f.Text] == 0 {
			texts = append(texts, f.Text)
		}
		rows[f.Text] += f.Rows
	}
	if len(texts) == 0 {
		return ""
	}
	for i, text := range texts {
		texts[i] = fmt.Sprintf("%s (%d)", text, rows[text])
	}
	return "Consider, with the number of measurements: " + strings.Join(texts, "; ") + "."
}

func sentence(p *record.Plan, r *Result, e record.Environment) string {
	by := map[stats.Verdict][]*Contrast{}
	total := 0
	for i := range r.Contrasts {
		if c := &r.Contrasts[i]; c.Environment == e.Name && c.Primary {
			by[c.Finding.Verdict] = append(by[c.Finding.Verdict], c)
			total++
		}
	}
	name := e.Name
	if e.Emulated {
		name += " (emulated)"
	}
	others := otherBinaries(p, e.Name, p.Baseline)
	if others {
		name += " (other binaries)"
	}
	if total == 0 {
		return name + ": no primary figure was measured."
	}
	var parts []string
	within, wider := byMargin(by[stats.Equivalent])
	if n := len(within); n > 0 {
		parts = append(parts, fmt.Sprintf("equivalent to %s within %s in %d of %d figures", p.Baseline, percent(p.Margin), n, total))
	}
	for _, c := range wider {
		parts = append(parts, fmt.Sprintf("%s equivalent only within %s, as %s against itself", c.name(p), percent(c.Finding.Margin), p.Baseline))
	}
	for _, v := range []stats.Verdict{stats.Slower, stats.Faster} {
		for _, c := range by[v] {
			parts = append(parts, fmt.Sprintf("%s %s", c.name(p), changeText(c.Finding)))
		}
	}
	parts = append(parts, undecided(p, r, slices.Concat(by[stats.Inconclusive], by[stats.TooFew]))...)
	for _, c := range by[stats.Withheld] {
		parts = append(parts, fmt.Sprintf("%s has no verdict, as the comparison is not fair: %s", c.name(p), strings.Join(c.Finding.Withheld, "; ")))
	}
	for _, c := range by[stats.Failed] {
		if n := len(parts); n > 0 && strings.HasPrefix(parts[n-1], "no verdict on ") {
			parts[n-1] = strings.Replace(parts[n-1], ", as ", ", "+c.name(p)+", as ", 1)
			continue
		}
		parts = append(parts, fmt.Sprintf("no verdict on %s, as %d of %d measurements failed", c.name(p), c.Finding.Failed+c.Finding.Unusable, max(c.Finding.Of, c.Finding.Blocks)))
	}
	return name + ": " + strings.Join(parts, "; ") + "." + start(p, r, e.Name) + advice(p, by, total, e.Emulated, others)
}

// byMargin separates what is equivalent within the margin that was asked for from what is
// within a wider one, which is all that the machine resolves.
func byMargin(equivalent []*Contrast) (within, wider []*Contrast) {
	for _, c := range equivalent {
		if c.Finding.Widened {
			wider = append(wider, c)
		} else {
			within = append(within, c)
		}
	}
	return within, wider
}

// undecided names figures without a verdict, those of one reason together.
func undecided(p *record.Plan, r *Result, contrasts []*Contrast) (parts []string) {
	names := map[string][]string{}
	var reasons []string
	for _, c := range contrasts {
		reason := ""
		switch f := c.Finding; {
		case f.Likely > 0:
			reason = fmt.Sprintf(" (%d blocks likely would%s)", f.Likely, inTime(r, f.Likely))
		case f.Blocks < f.Least:
			reason = fmt.Sprintf(" by %s (a verdict takes at least %d)", blocksText(f.Blocks), f.Least)
		}
		if names[reason] == nil {
			reasons = append(reasons, reason)
		}
		names[reason] = append(names[reason], c.name(p))
	}
	for _, reason := range reasons {
		parts = append(parts, strings.Join(names[reason], ", ")+" cannot be decided"+reason)
	}
	return parts
}

// inTime is how long so many blocks take.
func inTime(r *Result, blocks int) string {
	took := time.Duration(float64(blocks) * r.BlockSeconds * float64(time.Second))
	switch {
	case took < time.Second:
		return ""
	case took < 2*time.Minute:
		return fmt.Sprintf(", in %s", short(took))
	case took < 2*time.Hour:
		return fmt.Sprintf(", in %.0f minutes", took.Minutes())
	}
	return fmt.Sprintf(", in %.1f hours", took.Hours())
}

func blocksText(n int) string {
	if n == 1 {
		return "1 block"
	}
	return fmt.Sprintf("%d blocks", n)
}

// advice goes never beyond the verdicts.
func advice(p *record.Plan, by map[stats.Verdict][]*Contrast, total int, emulated, others bool) string {
	within, _ := byMargin(by[stats.Equivalent])
	good := len(within) + len(by[stats.Faster])
	switch {
	case emulated:
		return " Its processor is emulated: this says nothing of a machine with KVM."
	case others:
		return " Its programs may be others: this says nothing of the environment alone."
	case good == total:
		return " Use it."
	case good+len(by[stats.Slower]) == total:
		var names []string
		for _, c := range by[stats.Slower] {
			names = append(names, c.name(p))
		}
		return " Use it where " + strings.Join(names, ", ") + " does not bound your job."
	}
	return " No advice: it is undecided."
}

// startMetric is the builtin figure of how long an environment takes until the job begins.
const startMetric = "start_seconds"

// start is how long an environment takes to start, and for which jobs that counts.
func start(p *record.Plan, r *Result, environment string) string {
	for _, m := range p.Metrics {
		if m.Name != startMetric && m.Name != "start" {
			continue
		}
		for _, v := range r.Values {
			if v.Environment == environment && v.Metric == m.Name && v.Key == "" && v.Median > 0 {
				took := time.Duration(v.Median * float64(time.Second))
				job := time.Duration(v.Median / p.Margin * float64(time.Second))
				return fmt.Sprintf(" Starts in %s, which is more than %s of any job below %s.", short(took), percent(p.Margin), short(job))
			}
		}
	}
	return ""
}

func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// name is that of the figure, with its point where there are several.
func (c *Contrast) name(p *record.Plan) string {
	name := c.Metric
	if len(p.Points) > 1 {
		name += " at " + c.Point
	}
	return name
}

// changeText is such as "slower by 6 to 11 %", by the 95 % interval.
func changeText(f stats.Finding) string {
	low, high, word := f.NinetyFive.Low, f.NinetyFive.High, "slower"
	if f.Estimate < 0 {
		low, high, word = -high, -low, "faster"
	}
	if math.Exp(low) >= 2 { // a factor reads better
		return fmt.Sprintf("%s by a factor of %.1f to %.1f", word, math.Exp(low), math.Exp(high))
	}
	return fmt.Sprintf("%s by %.1f to %.1f %%", word, 100*math.Expm1(max(0, low)), 100*math.Expm1(high))
}

func percent(x float64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", 100*x), ".0") + " %"
}

// widest is the largest margin of the primary contrasts that A/A widened, or 0.
func widest(r *Result) (margin float64) {
	for i := range r.Contrasts {
		c := &r.Contrasts[i]
		if !c.Primary || !c.Finding.Widened || c.Finding.Blocks < c.Finding.Least {
			continue
		}
		m := math.Expm1(max(-c.Finding.Again.Low, c.Finding.Again.High))
		margin = max(margin, m)
	}
	return margin
}
