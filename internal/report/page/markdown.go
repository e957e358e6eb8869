package page

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/bee-hpc/bee/internal/core"
)

// Markdown writes the page for the summary of a CI job. All texts of others are code, in
// which Markdown knows no markup, link, mention or HTML.
func (p *Page) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## Run %s (%s): %s\n\n%s\n", code(p.Name), code(p.ID), code(p.State), p.Meaning)
	if p.Why != "" {
		fmt.Fprintf(&b, "\nReason: %s\n", code(p.Why))
	}
	for _, problem := range p.Problems {
		fmt.Fprintf(&b, "\nMissing on this page: %s\n", code(problem))
	}
	if len(p.Time) > 0 {
		b.WriteString("\n| time | share | use |\n|---|---|---|\n")
		for _, u := range p.Time {
			fmt.Fprintf(&b, "| %s | %.0f %% | %s |\n", u.Took, shareOf(u, p.Time), u.Text)
		}
	}
	b.WriteString("\n### Details\n\n" + fenced(p.plain(), maxPart))
	b.WriteString("\n### Outputs\n\n")
	if len(p.Outputs) == 0 {
		b.WriteString("None are collected.\n")
	}
	for _, o := range p.Outputs {
		fmt.Fprintf(&b, "In %s:\n\n", code(o.To))
		for _, name := range o.Names {
			b.WriteString("* " + code(name) + "\n")
		}
		if o.More > 0 {
			fmt.Fprintf(&b, "* and %d more\n", o.More)
		}
	}
	b.WriteString("\n### End of the log\n\n")
	if p.LogOf == "" {
		b.WriteString("Nothing was printed.\n")
	} else {
		b.WriteString(fenced(p.Log, maxPart))
	}
	if p.Beefile != "" {
		b.WriteString("\n### Job as submitted\n\n" + fenced(p.Beefile, maxPart))
	}
	fmt.Fprintf(&b, "\nWritten by bee %s at %s.\n", code(p.Version), p.Made.Local().Format(time.DateTime+" MST"))
	_, err := io.WriteString(w, b.String())
	return err
}

// plain are the blocks as text.
func (p *Page) plain() string {
	var b strings.Builder
	for i, block := range p.Blocks {
		if i > 0 {
			b.WriteString("\n")
		}
		for _, r := range block {
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-12s  %s", oneLine(r.Name), oneLine(r.Value)), " ") + "\n")
		}
	}
	return b.String()
}

func oneLine(text string) string {
	return strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "; ")
}

// code is a text in one line as a span of code.
func code(text string) string {
	text = lineOf(text, maxReason)
	if strings.TrimSpace(text) == "" {
		text = "-"
	}
	ticks := strings.Repeat("`", longestTicks(text)+1)
	return ticks + " " + text + " " + ticks // the spaces are not shown
}

// fenced is a text of several lines as a block of code, of at most so many bytes.
func fenced(text string, most int) string {
	text = strings.TrimRight(core.Printable(text, most), "\n")
	fence := strings.Repeat("`", max(longestTicks(text)+1, 3))
	return fence + "text\n" + text + "\n" + fence + "\n"
}

// longestTicks is the length of the longest sequence of backticks, which ends no code that
// begins with more of them.
func longestTicks(text string) int {
	longest, now := 0, 0
	for _, r := range text {
		now++
		if r != '`' {
			now = 0
		}
		longest = max(longest, now)
	}
	return longest
}
