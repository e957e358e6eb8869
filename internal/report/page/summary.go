package page

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// mostListed is how many results a summary lists.
const mostListed = 100

// Summary writes the results in Markdown, for the summary of a CI job: the page of a run
// alone, or what became of several, with those first that did not succeed.
func (r *Results) Summary(w io.Writer) error {
	if r.Page != nil {
		return r.Page.Markdown(w)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "## %s: %d of %d succeeded\n", code(named(r.Name)), r.count(Passed), len(r.Cases))
	if r.ID != "" {
		fmt.Fprintf(&b, "\nArray %s\n", code(named(r.ID)))
	}
	r.list(&b, "Without success", func(c *Result) bool { return c.Outcome == Failed || c.Outcome == Errored })
	r.list(&b, "Not over", func(c *Result) bool { return c.Outcome == Open })
	r.list(&b, "Not run", func(c *Result) bool { return c.Outcome == Skipped })
	r.list(&b, "Succeeded", func(c *Result) bool { return c.Outcome == Passed })
	logs := 0
	for i := range r.Cases {
		if c := &r.Cases[i]; c.Log != "" && logs < MostLogs {
			fmt.Fprintf(&b, "\n### End of the log of %s\n\n%s", code(named(c.Name)), fenced(c.log(), 2*maxLog))
			logs++
		}
	}
	fmt.Fprintf(&b, "\nWritten by bee %s at %s.\n", code(named(r.Version)), r.Made.Local().Format(time.DateTime+" MST"))
	_, err := io.WriteString(w, b.String())
	return err
}

// list writes a heading and the results of a kind below it, if there are any.
func (r *Results) list(b *strings.Builder, heading string, is func(*Result) bool) {
	n := 0
	for i := range r.Cases {
		c := &r.Cases[i]
		if !is(c) {
			continue
		}
		if n++; n == 1 {
			fmt.Fprintf(b, "\n### %s\n\n", heading)
		}
		if n > mostListed {
			continue
		}
		fmt.Fprintf(b, "* %s", code(named(c.Name)))
		if c.ID != "" {
			fmt.Fprintf(b, ", run %s", code(named(c.ID)))
		}
		if c.Site != "" {
			fmt.Fprintf(b, ", site %s", code(named(c.Site)))
		}
		if c.Took > 0 {
			fmt.Fprintf(b, ", after %s", c.Took.Round(time.Second/10))
		}
		if c.Outcome != Passed {
			fmt.Fprintf(b, ": %s", code(named(c.reason())))
			if c.Remedy != "" {
				fmt.Fprintf(b, " Next: %s", code(named(c.Remedy)))
			}
		}
		b.WriteString("\n")
	}
	if n > mostListed {
		fmt.Fprintf(b, "* and %d more\n", n-mostListed)
	}
}
